// Command install installs clients for Python and Node, if they are not there, and prints where they are, as JSON.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/warmpath/warmpath/test/e2e/aws/clients"
)

func main() {
	log.SetFlags(0)
	installed, err := clients.Install(context.Background(), log.Printf)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(installed); err != nil {
		log.Fatal(err)
	}
}
