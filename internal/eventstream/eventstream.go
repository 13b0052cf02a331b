// Package eventstream writes the frames of application/vnd.amazon.eventstream in which Amazon SageMaker's runtime API streams an answer.
package eventstream

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/go-json-experiment/json/jsontext"
)

// A frame is, all big-endian: its length (4 bytes), the length of its headers (4), the CRC-32 (IEEE) of those 8 bytes, the headers,
// the payload, and the CRC-32 of all that. The frames written here differ in their payload only, so their headers are constants:
// that is why they cost no allocation, which the encoder of AWS's SDK needs several of.

// ContentType is the media type of a stream of frames.
const ContentType = "application/vnd.amazon.eventstream"

// ErrorCode says why an exception ended a stream.
type ErrorCode string

// The error codes of a ModelStreamError (SageMaker Runtime API, ModelStreamError).
const (
	StreamBroken                ErrorCode = "StreamBroken"                // the model's answer broke off
	ModelInvocationTimeExceeded ErrorCode = "ModelInvocationTimeExceeded" // it took longer than it may
)

// Exceptions end a stream that cannot be completed.
const (
	// ModelStreamError is the model's failure; it has an ErrorCode.
	ModelStreamError Exception = iota
	// InternalStreamFailure is a failure of what stands before the model; it has none.
	InternalStreamFailure
)

// Exception is a kind of exception.
type Exception uint8

var (
	partHeaders      = headers(":event-type", "PayloadPart", ":content-type", "application/octet-stream", ":message-type", "event")
	exceptionHeaders = [...][]byte{
		ModelStreamError:      headers(":exception-type", "ModelStreamError", ":content-type", "application/json", ":message-type", "exception"),
		InternalStreamFailure: headers(":exception-type", "InternalStreamFailure", ":content-type", "application/json", ":message-type", "exception"),
	}
)

// typeString marks a header's value as a string.
const typeString = 7

// headers encodes names and values in turn: the length of the name (1 byte), the name, the type (1), the length of the value (2), the
// value.
func headers(pairs ...string) (encoded []byte) {
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i], pairs[i+1]
		encoded = append(append(encoded, byte(len(name))), name...)
		encoded = binary.BigEndian.AppendUint16(append(encoded, typeString), uint16(len(value)))
		encoded = append(encoded, value...)
	}
	return encoded
}

// AppendPart appends payload to dst as one PayloadPart event. SDKs refuse frames of more than 16 MiB. Nothing is allocated but what dst
// grows by.
func AppendPart(dst, payload []byte) []byte { return appendFrame(dst, partHeaders, payload) }

// AppendException appends an exception to dst. code is left out if it is empty. Bytes of message that are not UTF-8 become U+FFFD.
func AppendException(dst []byte, kind Exception, code ErrorCode, message string) []byte {
	// The errors only report bytes that were replaced by U+FFFD.
	payload := []byte("{")
	if code != "" {
		payload, _ = jsontext.AppendQuote(append(payload, `"ErrorCode":`...), string(code))
		payload = append(payload, ',')
	}
	payload, _ = jsontext.AppendQuote(append(payload, `"Message":`...), message)
	return appendFrame(dst, exceptionHeaders[kind], append(payload, '}'))
}

func appendFrame(dst, headers, payload []byte) []byte {
	start := len(dst)
	total := 4 + 4 + 4 + len(headers) + len(payload) + 4
	dst = binary.BigEndian.AppendUint32(dst, uint32(total))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst = append(append(dst, headers...), payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}
