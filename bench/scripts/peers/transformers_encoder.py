"""The encoder of a Switch Transformers checkpoint in Hugging Face transformers, one process, fed line by line.

    transformers_encoder.py --model DIR [--dtype float32|bfloat16] [--threads N]
        [--device cpu|cuda] [--bytes N]

With --bytes accelerate places layers on the GPU until they are full, and brings the others from the host's memory.
Writes one JSON line when it is ready, then one for each line it reads:
    in   {"tokens": [ids], "hidden": FILE or absent}
    out  {"ms": time of the forward call, "mean": of the last hidden state, absolute}
With "hidden" the last hidden state is written to FILE as float32, (tokens, d_model).
"""

import argparse
import json
import sys
import time

import torch
import transformers
from transformers import SwitchTransformersEncoderModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--bytes", type=int)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    transformers.logging.set_verbosity_error()
    begin = time.perf_counter()
    model = SwitchTransformersEncoderModel.from_pretrained(args.model, dtype=getattr(torch, args.dtype)).eval()
    # Out of the mapped file into memory of its own, which computes faster: the peer at its best.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.to(args.device if args.bytes is None else "cpu", copy=True)
    if args.bytes is not None:
        import accelerate

        own = {"max_memory": {0: args.bytes, "cpu": 1 << 50}, "no_split_module_classes": ["SwitchTransformersBlock"]}
        places = accelerate.infer_auto_device_map(model, **own)
        accelerate.dispatch_model(model, places, main_device=0, force_hooks=True)
    answer(
        torch=torch.__version__,
        transformers=transformers.__version__,
        python=sys.version.split()[0],
        threads=torch.get_num_threads(),
        parameters=sum(p.numel() for p in model.parameters()),
        bytes=sum(p.numel() * p.element_size() for p in model.parameters()),
        loadSeconds=time.perf_counter() - begin,
    )
    for line in sys.stdin:
        request = json.loads(line)
        ids = torch.tensor([request["tokens"]], device=args.device)
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            begin = time.perf_counter()
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
            if args.device == "cuda":
                torch.cuda.synchronize()
            took = time.perf_counter() - begin
        hidden = hidden[0].float().cpu().contiguous()
        if request.get("hidden"):
            hidden.numpy().tofile(request["hidden"])
        answer(ms=1000 * took, mean=hidden.abs().mean().item())


def answer(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
