"""Writes the folder of a small Llama without weights, for vLLM's --load-format dummy, which makes them up: the same ones each time.

The tokenizer has the 256 bytes and three special tokens, and merges nothing: one token is one byte.
"""
import json
import pathlib
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LAYERS, HEADS, KV_HEADS, HEAD = 4, 4, 2, 64
CONTEXT = 8192
SPECIALS = END_OF_TEXT, MESSAGE, END_OF_MESSAGE = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def alphabet() -> dict[str, int]:
    """The characters by which GPT-2's tokenizers write bytes. Printable ones stand for themselves."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [b for b in range(256) if b not in printable]
    return {chr(b) if b in printable else chr(256 + others.index(b)): b for b in range(256)}


folder = pathlib.Path(sys.argv[1])
tokenizer = Tokenizer(models.BPE(vocab=alphabet(), merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken(s, special=True) for s in SPECIALS])
tokenizer.save(str(folder / "tokenizer.json"))
begin, end = tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END_OF_MESSAGE)

for name, content in {
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "chat_template": TEMPLATE,
        "bos_token": END_OF_TEXT, "eos_token": END_OF_MESSAGE, "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False, "add_bos_token": False,
    },
    "config.json": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "max_position_embeddings": CONTEXT,
        "hidden_size": HEADS * HEAD, "intermediate_size": 3 * HEADS * HEAD, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "vocab_size": tokenizer.get_vocab_size(), "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "bos_token_id": begin, "eos_token_id": end, "pad_token_id": begin,
    },
    "generation_config.json": {"bos_token_id": begin, "eos_token_id": end},
}.items():
    (folder / name).write_text(json.dumps(content))
