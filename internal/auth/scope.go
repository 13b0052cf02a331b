package auth

import (
	"fmt"
	"strings"
	"time"
)

const (
	// service is what SageMaker's APIs, the control plane's and the runtime's, are called in a scope.
	service    = "sagemaker"
	terminator = "aws4_request"
)

// scope is what a signing key is good for: one day, region and service.
type scope struct{ date, region, service string }

// String writes the scope as it is signed.
func (s scope) String() string {
	return strings.Join([]string{s.date, s.region, s.service, terminator}, "/")
}

// parseCredential reads ID/DATE/REGION/SERVICE/aws4_request.
func parseCredential(text string) (id string, s scope, refusal *Refusal) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 || parts[0] == "" {
		return "", scope{}, incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '" + text + "'")
	}
	if parts[4] != terminator {
		return "", scope{}, invalid("Credential should be scoped with a valid terminator: 'aws4_request', not '" + parts[4] + "'.")
	}
	return parts[0], scope{date: parts[1], region: parts[2], service: parts[3]}, nil
}

// covers says what is wrong with a scope for a request of a time. region empty = any.
func (s scope) covers(at time.Time, region string) *Refusal {
	var faults []string
	if s.region == "" || region != "" && s.region != region {
		faults = append(faults, "Credential should be scoped to a valid region, not '"+s.region+"'.")
	}
	if s.service != service {
		faults = append(faults, "Credential should be scoped to correct service: '"+service+"'.")
	}
	if day := at.Format(dayLayout); s.date != day {
		faults = append(faults, fmt.Sprintf("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.",
			s.date, day, at.Format(timeLayout)))
	}
	if faults == nil {
		return nil
	}
	return invalid(strings.Join(faults, " "))
}

const (
	dayLayout  = "20060102"
	timeLayout = "20060102T150405Z"
)

// current says whether a signature made at a time is good at another.
func current(at, now time.Time, skew time.Duration) *Refusal {
	if earliest := now.Add(-skew); at.Before(earliest) {
		return expired("InvalidSignatureException", fmt.Sprintf("Signature expired: %s is now earlier than %s (%s - %s)",
			at.Format(timeLayout), earliest.Format(timeLayout), now.Format(timeLayout), spoken(skew)))
	}
	return begun(at, now, skew)
}

// begun refuses what was signed in the future.
func begun(at, now time.Time, skew time.Duration) *Refusal {
	if latest := now.Add(skew); at.After(latest) {
		return expired("InvalidSignatureException", fmt.Sprintf("Signature not yet current: %s is still later than %s (%s + %s)",
			at.Format(timeLayout), latest.Format(timeLayout), now.Format(timeLayout), spoken(skew)))
	}
	return nil
}

// spoken writes a duration as AWS does, "15 min."
func spoken(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min.", d/time.Minute)
	}
	return fmt.Sprintf("%d sec.", d/time.Second)
}
