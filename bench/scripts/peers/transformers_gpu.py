"""Scores labels with Switch Transformers in Hugging Face transformers on a GPU, in bfloat16: a measurement of `sida bench`.

Reads one JSON object on standard input and writes one on standard output:
    in   {"shape": {...}, "device": "cuda", "threads": N, "batch": N, "seconds": S,
          "inputs": [[ids]], "warmUp": [[ids]], "labels": [[start token, ids]], "budgetBytes": N or absent}
    out  {"ms": [of each batch], "wallMs", "sentences": measured, "scores": [[log-probability of each label]],
          "weightBytes": of all parameters, "peakBytes": of torch's allocator on the GPU, "versions"}
A shape is filled with random weights of the distribution of bench/scripts/make-switch-checkpoint.mjs, on the device.
With "budgetBytes" accelerate places layers on the GPU until that many bytes are full; the others stay in host memory
and are brought when they run, of a MoE layer the experts that tokens went to. Warm-up and measured batches stop after
"seconds" each, but not before one batch.
"""

import json
import sys
import time

import torch
import transformers
from transformers import SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

PAD = 0


def config_of(shape: dict) -> SwitchTransformersConfig:
    return SwitchTransformersConfig(
        d_model=shape["dModel"],
        d_kv=shape["dKv"],
        d_ff=shape["dFf"],
        num_heads=shape["heads"],
        num_layers=shape["layers"],
        num_decoder_layers=shape["layers"],
        num_sparse_encoder_layers=shape["layers"] // 2,
        num_sparse_decoder_layers=shape["layers"] // 2,
        encoder_sparse_step=2,
        decoder_sparse_step=2,
        num_experts=shape["experts"],
        expert_capacity=64,
        vocab_size=shape["vocab"],
        dense_act_fn="relu",
        tie_word_embeddings=True,
        decoder_start_token_id=PAD,
        pad_token_id=PAD,
        eos_token_id=1,
        router_bias=False,
    )


def deviation(name: str, config: SwitchTransformersConfig) -> float:
    inner = config.num_heads * config.d_kv
    if "layer_norm" in name:
        return 0.0
    if name.startswith("shared."):
        return 1.0
    if name.endswith(".q.weight"):
        return (config.d_model * config.d_kv) ** -0.5
    if name.endswith(".o.weight"):
        return inner**-0.5
    if name.endswith(".wo.weight"):
        return config.d_ff**-0.5
    return config.d_model**-0.5


def random_model(shape: dict, device: str, home: str) -> SwitchTransformersForConditionalGeneration:
    """Its parameters lie on `home`; numbers are drawn on `device`, which is the faster one."""
    config = config_of(shape)
    with torch.device("meta"):
        model = SwitchTransformersForConditionalGeneration(config).to(torch.bfloat16)
    model.to_empty(device=home)
    model.tie_weights()
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        std = deviation(name, config)
        with torch.no_grad():
            if std == 0.0:
                parameter.fill_(1.0)
            else:
                drawn = torch.empty(parameter.shape, device=device, dtype=torch.bfloat16).normal_(0.0, std)
                parameter.copy_(drawn)
    return model


def load(work: dict) -> SwitchTransformersForConditionalGeneration:
    device, budget = work["device"], work.get("budgetBytes")
    home = device if budget is None else "cpu"
    model = random_model(work["shape"], device, home)
    model.eval()
    for name, module in model.named_modules():
        # In float32 whatever the model computes in: converting it in every pass is not what is compared.
        if name.endswith("router.classifier"):
            module.to(torch.float32)
    if budget is not None:
        offload(model, budget, device)
    return model


def offload(model: SwitchTransformersForConditionalGeneration, budget: int, device: str) -> None:
    import accelerate

    if device == "cpu":
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
        return
    places = accelerate.infer_auto_device_map(
        model,
        max_memory={0: budget, "cpu": 1 << 50},
        no_split_module_classes=["SwitchTransformersBlock"],
    )
    accelerate.dispatch_model(model, places, main_device=0, force_hooks=True)


def padded(rows: list[list[int]], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids.to(device), mask.to(device)


class Scorer:
    def __init__(self, model: SwitchTransformersForConditionalGeneration, labels: list[list[int]], device: str):
        self.model = model
        self.device = device
        ids, mask = padded(labels, device)
        self.count = len(labels)
        # Each position's answer is the token after it; padding behind a label's end is seen by nothing before it.
        self.inputs, self.targets, self.mask = ids[:, :-1], ids[:, 1:], mask[:, 1:].float()

    @torch.inference_mode()
    def scores(self, group: list[list[int]]) -> list[list[float]]:
        ids, mask = padded(group, self.device)
        encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
        encoded.last_hidden_state = encoded.last_hidden_state.repeat_interleave(self.count, 0)
        logits = self.model(
            encoder_outputs=encoded,
            attention_mask=mask.repeat_interleave(self.count, 0),
            decoder_input_ids=self.inputs.repeat(len(group), 1),
            use_cache=False,
        ).logits
        logprobs = logits.float().log_softmax(-1)
        taken = logprobs.gather(2, self.targets.repeat(len(group), 1)[:, :, None].to(logprobs.device))[:, :, 0]
        own = (taken * self.mask.repeat(len(group), 1).to(taken.device)).sum(1)
        return own.view(len(group), self.count).tolist()


def run(scorer: Scorer, rows: list[list[int]], batch: int, seconds: float) -> tuple[list[float], list[list[float]]]:
    """Milliseconds of each batch, and the scores of each input that was reached."""
    milliseconds: list[float] = []
    scores: list[list[float]] = []
    begin = time.perf_counter()
    for first in range(0, len(rows), batch):
        if milliseconds and time.perf_counter() - begin >= seconds:
            break
        started = time.perf_counter()
        # Ends with the numbers in host memory, so after all of the GPU's work.
        scores += scorer.scores(rows[first : first + batch])
        milliseconds.append(1000 * (time.perf_counter() - started))
    return milliseconds, scores


def main() -> None:
    work = json.load(sys.stdin)
    torch.set_num_threads(work["threads"])
    transformers.logging.set_verbosity_error()
    device = work["device"]
    model = load(work)
    on_gpu = device != "cpu"
    placed = sum(p.numel() * p.element_size() for p in model.parameters() if p.device.type == device)
    total = torch.cuda.memory_allocated() if on_gpu else placed
    scorer = Scorer(model, work["labels"], device)
    run(scorer, work["warmUp"], work["batch"], work["seconds"])
    milliseconds, scores = run(scorer, work["inputs"], work["batch"], work["seconds"])
    versions = [f"transformers {transformers.__version__}", f"torch {torch.__version__}"]
    if work.get("budgetBytes") is not None:
        import accelerate

        versions.append(f"accelerate {accelerate.__version__}")
    print(
        json.dumps(
            {
                "ms": milliseconds,
                "wallMs": sum(milliseconds),
                "sentences": len(scores),
                "scores": scores,
                "weightBytes": sum(p.numel() * p.element_size() for p in model.parameters()),
                "peakBytes": torch.cuda.max_memory_allocated() if on_gpu else total,
                "versions": ", ".join(versions),
            }
        )
    )


if __name__ == "__main__":
    main()
