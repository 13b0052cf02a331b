package admin

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const defaultExplainPath = "/v1/chat/completions"

func (s *server) explain(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	if path == "" {
		path = defaultExplainPath
	}
	if !strings.HasPrefix(path, "/") {
		writeError(w, http.StatusBadRequest, "bad_path", "the query parameter path must begin with a slash, such as "+defaultExplainPath)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	if err != nil {
		unreadable(w, err)
		return
	}
	explanation, err := s.Explain(r.Context(), path, r.Header.Clone(), body)
	if err != nil {
		refuse(w, err, "explain_failed")
		return
	}
	writeJSON(w, http.StatusOK, explanation)
}

// unreadable answers a request whose body could not be read.
func unreadable(w http.ResponseWriter, err error) {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		writeError(w, http.StatusRequestEntityTooLarge, "body_too_large", "the body is longer than "+strconv.FormatInt(tooLong.Limit, 10)+" bytes")
		return
	}
	writeError(w, http.StatusBadRequest, "bad_body", "the body could not be read to its end")
}
