package controlplane

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// paging is what every List operation takes.
type paging struct {
	SortOrder  string `json:"SortOrder" check:"enum=Ascending|Descending"`
	MaxResults *int   `json:"MaxResults" check:"range=1..100"`
	NextToken  string `json:"NextToken" check:"length=..8192"`
}

// defaultPage is the length of a page that no MaxResults sets.
const defaultPage = 10

// row is an item of a list with its place in the order: by Sort, then by Name.
type row[T any] struct {
	Sort, Name string
	Item       T
}

func (r row[T]) compare(other row[T]) int {
	if c := strings.Compare(r.Sort, other.Sort); c != 0 {
		return c
	}
	return strings.Compare(r.Name, other.Name)
}

// sortable writes a moment so that texts are in the order of the moments.
func (i instant) sortable() string { return fmt.Sprintf("%020d", i.UnixMilli()) }

// cut sorts rows and gives the page that was asked for, and the token of the next one, "" after the last. A token holds the place of
// the last row before it, so that rows that come and go between two pages are neither shown twice nor make others be left out.
func cut[T any](rows []row[T], sortBy string, p paging) (page []T, next string, err error) {
	direction := 1
	if p.SortOrder != "Ascending" {
		direction = -1
	}
	slices.SortFunc(rows, func(a, b row[T]) int { return direction * a.compare(b) })
	order := sortBy + p.SortOrder
	if p.NextToken != "" {
		after, ok := readToken[T](p.NextToken, order)
		if !ok {
			return nil, "", invalid("Invalid NextToken: it is not one of this list in this order.")
		}
		rows = slices.DeleteFunc(rows, func(r row[T]) bool { return direction*r.compare(after) <= 0 })
	}
	most := defaultPage
	if p.MaxResults != nil {
		most = *p.MaxResults
	}
	page = []T{} // a list is never null
	for _, r := range rows[:min(most, len(rows))] {
		page = append(page, r.Item)
	}
	if len(rows) > most {
		last := rows[most-1]
		next = base64.RawURLEncoding.EncodeToString([]byte(order + "\n" + last.Sort + "\n" + last.Name))
	}
	return page, next, nil
}

func readToken[T any](token, order string) (after row[T], ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(text), "\n")
	if err != nil || len(parts) != 3 || parts[0] != order {
		return after, false
	}
	return row[T]{Sort: parts[1], Name: parts[2]}, true
}
