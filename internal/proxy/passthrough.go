package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httputil"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// upgrades says that a request wants to leave HTTP for a websocket, as for /v1/realtime: a GET (RFC 6455 section 4.1). Other wishes
// may be ignored (RFC 9110 section 7.8), and must be: Java's client and curl ask for h2c with any request, and with a body.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// passThrough tunnels a request that changes protocols. The model can only stand in the query, and nothing can be sent twice: it
// goes to one replica, by load, and counts there until the tunnel closes.
func (x *exchange) passThrough() *dialect.Error {
	if err := x.prove(); err != nil {
		return err
	}
	err := x.decide()
	if err != nil {
		return err
	}
	plan := x.plan
	lease, flight := x.acquire()
	if lease == nil {
		return x.nobody()
	}
	defer func() {
		lease.Release()
		if flight != nil {
			flight.Ended(routing.Outcome{At: x.Now()})
		}
	}()
	x.rec.Attempts, x.rec.Outcome = 1, telemetry.OutcomeOK
	outcome := health.Success
	tunnel := httputil.ReverseProxy{
		Transport: plan.variant.Pool.Transport,
		ErrorLog:  slog.NewLogLogger(x.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Path, p.Out.URL.RawPath = x.enginePath()
			p.SetURL(lease.Replica().URL())
			p.Out.Header = x.upstreamHeader()
			p.Out.Header["Connection"], p.Out.Header["Upgrade"] = []string{"Upgrade"}, x.r.Header["Upgrade"]
		},
		ModifyResponse: func(resp *http.Response) error {
			x.rec.Status = resp.StatusCode
			x.decorate(resp.Header)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, cause error) {
			if outcome = health.OfError(cause); r.Context().Err() == nil {
				x.rec.Outcome = telemetry.OutcomeUpstreamError
			}
			f := failUnreachable
			err = &dialect.Error{Status: f.status, Code: f.code, Message: f.message, Cause: cause}
		},
	}
	tunnel.ServeHTTP(x.w, x.r)
	plan.variant.Pool.Outlier.Observe(lease, outcome)
	return err
}
