package controlplane

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/warmpath/warmpath/internal/auth"
)

// maxBody is the longest request, in bytes: several times what ten variants with fifty tags need.
const maxBody = 256 << 10

// targetPrefix comes before the operation's name in the header X-Amz-Target.
const targetPrefix = "SageMaker."

// instant is a moment as AWS JSON 1.1 writes it: seconds since 1970 as a number, here to the millisecond.
type instant struct{ time.Time }

func instantOf(t time.Time) instant { return instant{time.UnixMilli(t.UnixMilli()).UTC()} }

// MarshalJSON writes seconds with three decimals.
func (i instant) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(i.UnixMilli())/1000, 'f', 3, 64), nil
}

// UnmarshalJSON reads a number of seconds, with or without decimals or an exponent.
func (i *instant) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || seconds < -1e11 || seconds > 1e11 {
		return errors.New("is not a number of seconds since 1970")
	}
	*i = instant{time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()}
	return nil
}

// apiError is an error as clients get it.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// invalid is the error of nearly everything that a client can do wrong: SageMaker tells its cases apart by their texts.
func invalid(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "ValidationException", fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one call of AWS JSON 1.1: the operation stands in X-Amz-Target, its input in the body.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/x-amz-json-1.1")
	header.Set("x-amzn-RequestId", requestID())
	header.Set("Cache-Control", "no-store")
	answer, err := s.call(w, r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		s.refuse(w, err)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// call finds out who calls and what, and runs the operation.
func (s *Server) call(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		// The listener is on loopback, where a page in the operator's browser can reach it; no SDK sends these headers.
		return nil, unknownCaller(auth.Denied("A web page may not call the control plane."))
	}
	claim, refusal := s.o.Auth().Begin(r)
	if refusal != nil {
		return nil, unknownCaller(refusal)
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	target := r.Header.Get("X-Amz-Target")
	name, ours := strings.CutPrefix(target, targetPrefix)
	caller, err := permit(claim, body, clip(name))
	if err != nil {
		return nil, err
	}
	run := operations[name]
	if r.Method != http.MethodPost || !ours || run == nil {
		return nil, &apiError{http.StatusBadRequest, "UnknownOperationException",
			fmt.Sprintf("The control plane does not know the operation '%s'.%s", clip(target), elsewhere(name))}
	}
	answer, err := run(s, body)
	if err == nil && !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "List") {
		s.log.Info("control plane", "operation", name, "key", caller, "request", w.Header().Get("x-amzn-RequestId"))
	}
	return answer, err
}

// elsewhere says where to find what an operation of that name is about; "" = there is no such operation, but the path of an endpoint's.
func elsewhere(name string) string {
	switch {
	case name == "":
		return " Endpoints are called on the data listener."
	case strings.HasSuffix(name, "Model") || strings.HasSuffix(name, "Models"):
		return " Models are pools of replicas, which stand in Warmpath's configuration file."
	}
	return ""
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, &apiError{http.StatusRequestEntityTooLarge, "RequestEntityTooLargeException", fmt.Sprintf("The request is longer than %d bytes.", maxBody)}
	case err != nil:
		return nil, &apiError{http.StatusBadRequest, "SerializationException", "The request body broke off."}
	}
	return body, nil
}

// refuse answers with an error. One that is not the client's is logged, and the client learns no more than that.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		s.log.Error("control plane", "error", err.Error())
		e = &apiError{http.StatusInternalServerError, "InternalFailure", "The request was not carried out; Warmpath's log says why."}
	}
	body, _ := json.Marshal(struct { // two strings cannot fail
		Type    string `json:"__type"`
		Message string `json:"message"`
	}{e.code, e.message})
	w.Header().Set("x-amzn-ErrorType", e.code)
	w.WriteHeader(e.status)
	_, _ = w.Write(body)
}

// operation runs one call with its input as JSON.
type operation func(s *Server, body []byte) (any, error)

// typed is an operation whose input is read and checked before run sees it.
func typed[In, Out any](run func(*Server, *In) (Out, error)) operation {
	return func(s *Server, body []byte) (any, error) {
		in := new(In)
		if err := decode(body, in); err != nil {
			return nil, err
		}
		if err := check(in); err != nil {
			return nil, err
		}
		return run(s, in)
	}
}

// decode reads an input. Members that it does not know are skipped, as AWS does: SDKs are newer than servers.
func decode(body []byte, in any) error {
	if len(body) == 0 {
		return nil
	}
	err := json.Unmarshal(body, in)
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic) && semantic.JSONPointer != "":
		return &apiError{http.StatusBadRequest, "SerializationException",
			fmt.Sprintf("%s holds a value of the wrong type: %s.", clip(string(semantic.JSONPointer)), kindName(semantic.JSONKind))}
	}
	return &apiError{http.StatusBadRequest, "SerializationException", "The request is not a JSON object."}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number, of this size or at all"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	}
	return "null"
}

// requestID is a random UUID, of version 4.
func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it cannot fail
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// clip shortens a client's text that goes into a message, and makes it fit to stand in JSON.
func clip(text string) string {
	const most = 128
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
