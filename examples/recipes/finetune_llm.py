"""Fine-tune a causal language model of Hugging Face over all ranks of a job.

    corral run finetune_llm.py -N2 -G1 --python /shared/venv -- --model NAME --text notes.txt

NAME is any that `from_pretrained` takes, or a folder; `--lora` trains adapters alone (peft). To try
it without a download: `--make-tiny FOLDER` writes a model of 0.1 million weights and its tokenizer.
The result is in `--out`. Ends with status 1 when the loss on text held back did not fall.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="")
    parser.add_argument("--text", type=Path, required=True, help="a file of text")
    parser.add_argument("--out", type=Path, default=Path("finetuned"))
    parser.add_argument("--make-tiny", type=Path, help="write a tiny model there, and end")
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-4)
    return parser.parse_args()


def make_tiny(folder: Path, text: Path) -> None:
    """A Llama that is too small to be of use, and a tokenizer of bytes: for rehearsals."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train([str(text)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


class Pieces(torch.utils.data.Dataset):
    """A text in pieces of equal length."""

    def __init__(self, ids: list[int], length: int) -> None:
        self.pieces = torch.tensor(ids[: len(ids) // length * length]).view(-1, length)

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.pieces[index], "labels": self.pieces[index]}


def main() -> int:
    options = arguments()
    if options.make_tiny:
        make_tiny(options.make_tiny, options.text)
        return 0
    on_cpus = not torch.cuda.is_available()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    ids = tokenizer(options.text.read_text())["input_ids"]
    held_back = max(len(ids) // 20, options.length * 8)
    model = AutoModelForCausalLM.from_pretrained(options.model)
    if options.lora:
        from peft import LoraConfig, get_peft_model  # noqa: PLC0415

        model = get_peft_model(
            model, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM")
        )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(options.out),
            per_device_train_batch_size=options.batch,
            max_steps=options.steps,
            learning_rate=options.lr,
            logging_steps=max(options.steps // 10, 1),
            save_strategy="no",
            report_to="none",
            use_cpu=on_cpus,
            bf16=not on_cpus,
            # Debian's PyTorch would take MPI on CPUs, which lacks what Trainer needs.
            ddp_backend="gloo" if on_cpus else "nccl",
            disable_tqdm=True,
        ),
        train_dataset=Pieces(ids[:-held_back], options.length),
        eval_dataset=Pieces(ids[-held_back:], options.length),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    trainer.save_model(str(options.out))
    ranks = trainer.args.world_size
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(options.out)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        figures = {"ranks": ranks, "before": before, "after": after, "trained": trained}
        print(f"RESULT {json.dumps(figures)}", flush=True)
    return 0 if after < before and ranks == int(os.environ.get("SLURM_NTASKS", "1")) else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # At once: threads of gloo that PyTorch 2.6 leaves may abort the interpreter's own end.
    os._exit(status)
