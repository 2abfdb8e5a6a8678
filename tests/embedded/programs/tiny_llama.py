"""Write a Llama that is too small to be of use, and its tokenizer: tiny_llama.py FOLDER.

Its heads have 32 numbers, the fewest that vLLM's attention on CPUs takes.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = sys.argv[1]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
tokenizer.train_from_iterator(
    ["import os\nimport sys\n"],
    trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet, show_progress=False),
)
PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=512,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).save_pretrained(folder)
