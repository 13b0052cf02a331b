package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
)

// Refusal is an error of Explain or Reload that chooses its own HTTP status and code. Other errors become 422.
type Refusal struct {
	Status  int    // 400-599
	Code    string // machine-readable, snake_case
	Message string // for people: what is wrong and what to do
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// refuse answers with err: as it says if it is a Refusal, else 422 and code.
func refuse(w http.ResponseWriter, err error, code string) {
	var r *Refusal
	if errors.As(err, &r) {
		writeError(w, r.Status, r.Code, err.Error())
		return
	}
	writeError(w, http.StatusUnprocessableEntity, code, err.Error())
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]failure{"error": {code, message}})
}

// writeJSON encodes before it writes, so that a value that cannot be encoded is a clean 500 rather than a broken 200.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		writeError(w, http.StatusInternalServerError, "not_encodable", "the answer could not be written as JSON: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "not_found", "no such path: GET / lists them")
}
