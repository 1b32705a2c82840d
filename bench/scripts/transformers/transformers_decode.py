"""A decoder-only model in Hugging Face transformers: makes a checkpoint of random weights, or decodes given ids.

Reads one JSON object on standard input and writes one on standard output:
    in   {"make": DIR, "config": {...}, "device", "seed"}
    or   {"checkpoint": DIR, "device", "prompt": [ids], "fed": [ids, one a pass], "budgetBytes": N or absent}
    out  {"ms": [of each pass with one token], "prefillMs", "weightBytes", "deviceWeightBytes", "peakBytes": of torch's
          allocator on the GPU, "versions"}
All of it is bfloat16. Weights are scaled as those of bench/scripts/larger-than-memory/make-random-pack.mjs: embeddings
with the standard deviation 1, matrices that write to the residual stream divided by the square root of twice the
layers, so that a router sees its token. With "budgetBytes" accelerate places layers on the GPU until that many bytes
are full; the others stay in host memory and are brought when they run.
"""

import json
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM


def make(work: dict) -> dict:
    settings = dict(work["config"])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(work["seed"])
    with torch.device(work["device"]):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for name, parameter in model.named_parameters():
        if "embed_tokens" in name:
            parameter.normal_(0.0, 1.0)
        elif "o_proj" in name or "down_proj" in name:
            parameter.div_((2 * config.num_hidden_layers) ** 0.5)
    model.save_pretrained(work["make"], max_shard_size="4GB")
    return {"parameters": sum(parameter.numel() for parameter in model.parameters())}


def load(work: dict) -> torch.nn.Module:
    placed = {"": work["device"]}
    limits = None
    if "budgetBytes" in work:
        placed, limits = "auto", {0: work["budgetBytes"], "cpu": 1 << 50}
    return AutoModelForCausalLM.from_pretrained(
        work["checkpoint"], dtype=torch.bfloat16, device_map=placed, max_memory=limits
    ).eval()


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def decode(work: dict) -> dict:
    device = work["device"]
    model = load(work)
    weights = list(model.parameters())

    def step(ids: list[int], past):
        started = time.perf_counter()
        answer = model(torch.tensor([ids], device=device), past_key_values=past, logits_to_keep=1)
        assert torch.isfinite(answer.logits).all()
        synchronize(device)
        return (time.perf_counter() - started) * 1000, answer.past_key_values

    with torch.inference_mode():
        # The first pass of a process loads kernels.
        step(work["prompt"], None)
        prefill, past = step(work["prompt"], None)
        ms = []
        for token in work["fed"]:
            took, past = step([token], past)
            ms.append(took)
    sizes = [(weight.device.type, weight.numel() * weight.element_size()) for weight in weights]
    return {
        "ms": ms,
        "prefillMs": prefill,
        "weightBytes": sum(size for _, size in sizes),
        "deviceWeightBytes": sum(size for kind, size in sizes if kind == device),
        "peakBytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
        "versions": f"transformers {transformers.__version__}, torch {torch.__version__}",
    }


work = json.load(sys.stdin)
torch.set_grad_enabled(False)
print(json.dumps(make(work) if "make" in work else decode(work)))
