package config

import (
	"fmt"
	"strconv"
	"strings"
)

// join appends a key to a path. Keys that would read as several, such as llama-3.1, are quoted: pools["llama-3.1"].
func join(path, key string) string {
	switch {
	case key == "" || strings.ContainsFunc(key, notPlain):
		return path + "[" + strconv.Quote(clip(key)) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func notPlain(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
}

// index appends a position in a list to a path.
func index(path string, i int) string {
	return fmt.Sprintf("%s[%d]", path, i)
}

// parent removes the last step of a path. In a quoted key it may stop inside, at something that is no path of any value.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// clip shortens text that goes into a message.
func clip(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
