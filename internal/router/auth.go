package router

import (
	"time"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/config"
)

// newAuthenticator knows the callers of a configuration; nil = it asks nobody for credentials.
func newAuthenticator(c *config.Auth) *auth.Authenticator {
	if c == nil {
		return nil
	}
	o := auth.Options{Region: c.Region, ClockSkew: time.Duration(c.ClockSkew), Now: time.Now}
	for _, k := range c.Keys {
		o.Keys = append(o.Keys, auth.Key{Caller: auth.Caller{Name: k.Name, Endpoints: k.Endpoints}, Secret: k.Key.Reveal()})
	}
	for _, k := range c.AccessKeys {
		o.AccessKeys = append(o.AccessKeys, auth.AccessKey{
			Caller: auth.Caller{Name: k.Name, Endpoints: k.Endpoints, ControlPlane: k.ControlPlane}, ID: k.ID, Secret: k.Secret.Reveal(),
		})
	}
	return auth.New(o)
}
