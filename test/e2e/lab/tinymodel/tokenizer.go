package tinymodel

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// WriteTokenizer writes the model's tokenizer into a folder as Hugging Face's libraries read it, for programs that count tokens
// themselves. It fails if the folder cannot be written to.
func WriteTokenizer(folder string) error {
	type object = map[string]any
	words, ids := vocabulary(), map[string]int{}
	for id, word := range words {
		ids[word] = id
	}
	var control []object
	for id := endOfText; id < tokens; id++ {
		control = append(control, object{"id": id, "content": words[id], "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		delete(ids, words[id])
	}
	bytesApart := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	files := map[string]object{
		"tokenizer.json": {
			"version": "1.0", "added_tokens": control, "pre_tokenizer": bytesApart, "decoder": bytesApart,
			"model": object{"type": "BPE", "vocab": ids, "merges": []string{}},
		},
		"tokenizer_config.json": {
			"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": Small.ContextLimit, "clean_up_tokenization_spaces": false,
			"bos_token": words[endOfText], "eos_token": words[endOfText], "pad_token": words[endOfText], "chat_template": chatTemplate,
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
