package tinymodel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// WriteTokenizer writes a tokenizer into a folder, as Hugging Face's libraries read it, for programs that count tokens themselves or
// draw text from them. It counts what the model counts, a token a byte, but knows only the tokens of printable ASCII, in an order of its
// own: texts drawn from all bytes would not be text. It fails if the folder cannot be written to.
func WriteTokenizer(folder string) error {
	type object = map[string]any
	words := vocabulary()
	ids := map[string]int{words['\n']: 0}
	for b := ' '; b <= '~'; b++ {
		ids[words[b]] = len(ids)
	}
	var control []object
	for _, word := range words[endOfText:] {
		control = append(control, object{"id": len(ids) + len(control), "content": word, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	bytesApart := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	end := words[endOfText]
	files := map[string]object{
		"tokenizer.json": {
			"version": "1.0", "added_tokens": control, "pre_tokenizer": bytesApart, "decoder": bytesApart,
			"model": object{"type": "BPE", "vocab": ids, "merges": []string{}},
		},
		"tokenizer_config.json": {
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": Small.ContextLimit, "clean_up_tokenization_spaces": false,
			"bos_token": end, "eos_token": end, "pad_token": end, "chat_template": chatTemplate,
		},
	}
	for name, content := range files {
		text, err := json.Marshal(content)
		if err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	return nil
}
