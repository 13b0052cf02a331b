package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/controlplane"
)

func newCheckCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration file with the same code as serve",
		Long: `Check prints every error of a configuration file with its line and column, and exits with 2 if there is one. Where the file has a
control plane, it also looks for what its state file holds and the file contradicts.`,
		Example: "  warmpath check -c warmpath.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return usageError{errors.New("check: give the configuration with -c FILE")}
			}
			cfg, err := config.Load(file, os.LookupEnv)
			if err != nil {
				return usageError{err}
			}
			if _, err := withMade(cfg); err != nil {
				return usageError{err}
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: ok (endpoints: %d, pools: %d)\n", file, len(cfg.Endpoints), len(cfg.Pools))
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "configuration `file`")
	return c
}

// withMade is a configuration with what was made by API before. It only reads: the state file may be a running router's.
func withMade(cfg *config.Config) (*config.Config, error) {
	if cfg.ControlPlane == nil {
		return cfg, nil
	}
	made, err := controlplane.Stored(cfg.ControlPlane.StateFile)
	if err != nil {
		return nil, err
	}
	return cfg.With(made)
}
