package admin

import (
	"io"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/fleet"
)

// replicaPattern names one replica. Its identity can hold a slash, which the client escapes as %2F.
const replicaPattern = "/api/v1/pools/{pool}/replicas/{replica}"

func (s *server) replicas(w http.ResponseWriter, _ *http.Request) {
	pools := map[string][]fleet.Status{}
	for name, statuses := range s.Pools() {
		pools[name] = append([]fleet.Status{}, statuses...) // an empty list, not null, for programs that range over it
	}
	writeJSON(w, http.StatusOK, map[string]any{"pools": pools})
}

func (s *server) replica(w http.ResponseWriter, r *http.Request) { s.writeReplica(w, r) }

func (s *server) drain(w http.ResponseWriter, r *http.Request) {
	draining, ok := readBool(w, r)
	if !ok {
		writeError(w, http.StatusBadRequest, "bad_body", "the body must be true (send the replica nothing new) or false (use it again)")
		return
	}
	if !s.Drain(r.PathValue("pool"), r.PathValue("replica"), draining) {
		noReplica(w)
		return
	}
	s.writeReplica(w, r)
}

// readBool reads a body that is the JSON text true or false.
func readBool(w http.ResponseWriter, r *http.Request) (value, ok bool) {
	const longest = 64 // white space allowed
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longest))
	if err != nil {
		return false, false
	}
	text := strings.TrimSpace(string(body))
	return text == "true", text == "true" || text == "false"
}

// writeReplica answers with the replica that the path names.
func (s *server) writeReplica(w http.ResponseWriter, r *http.Request) {
	status, ok := find(s.Pools()[r.PathValue("pool")], r.PathValue("replica"))
	if !ok {
		noReplica(w)
		return
	}
	writeJSON(w, http.StatusOK, status)
}

func noReplica(w http.ResponseWriter) {
	writeError(w, http.StatusNotFound, "unknown_replica", "no such replica in that pool: GET /api/v1/replicas lists them; escape a slash in its name as %2F")
}

// find returns the status of the replica of that identity. One that was removed and added again is listed twice until the
// older object has finished what it had: the answer is the newer, with the in-flight requests of both, because only their sum
// tells when the engine can be stopped.
func find(statuses []fleet.Status, replica string) (found fleet.Status, ok bool) {
	for _, s := range statuses {
		if s.Replica != replica {
			continue
		}
		inFlight := found.InFlight + s.InFlight
		if !ok || found.Removed {
			found = s
		}
		found.InFlight, ok = inFlight, true
	}
	return found, ok
}
