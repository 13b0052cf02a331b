package prompt_test

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/prompt"
)

func ExampleScan() {
	raw := []byte(`{"model": "gpt-4o", "seed": 9007199254740993, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}`)
	body, err := prompt.Scan(raw, prompt.ShapeChat)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, used, ok := body.TextKey(4096, body.CacheKey)
	fmt.Println(body.Model, body.Stream, used, ok)
	fmt.Printf("%s\n", body.Splice(nil, body.SetModel("llama-3.1-70b")))
	// Output:
	// gpt-4o false 20 true
	// {"model": "llama-3.1-70b", "seed": 9007199254740993, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
}
