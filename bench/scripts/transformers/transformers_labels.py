"""Scores labels with a Switch Transformers checkpoint in Hugging Face transformers: a measurement of `sida bench`.

Reads one JSON object on standard input and writes one on standard output:
    in   {"model": DIR, "threads": N, "inputs": [[ids]], "decoder": [[ids]], "warmUp": [[ids]]}
    out  {"ms": [of each input], "logprobs": [[[of each decoder input's positions]]], "bytes": of the parameters, versions}
`decoder` holds label tokens behind the start token; the log-probability at a position is that of the token after it,
and the last one's is left out.
"""

import json
import sys
import time

import torch
import transformers
from transformers import SwitchTransformersForConditionalGeneration


def main() -> None:
    work = json.load(sys.stdin)
    torch.set_num_threads(work["threads"])
    torch.set_num_interop_threads(1)
    transformers.logging.set_verbosity_error()
    model = SwitchTransformersForConditionalGeneration.from_pretrained(work["model"], dtype=torch.float32).eval()
    decoders = [torch.tensor([ids]) for ids in work["decoder"]]

    def answer(ids: list[int]) -> list[list[float]]:
        tokens = torch.tensor([ids])
        with torch.inference_mode():
            encoded = model.get_encoder()(input_ids=tokens, attention_mask=torch.ones_like(tokens))
            rows = []
            for decoder in decoders:
                logits = model(
                    encoder_outputs=encoded, attention_mask=torch.ones_like(tokens), decoder_input_ids=decoder[:, :-1]
                ).logits
                logprobs = logits.float().log_softmax(-1)
                rows.append(logprobs[0].gather(1, decoder[0, 1:, None])[:, 0].tolist())
        return rows

    for ids in work["warmUp"]:
        answer(ids)
    milliseconds, logprobs = [], []
    for ids in work["inputs"]:
        begin = time.perf_counter()
        logprobs.append(answer(ids))
        milliseconds.append(1000 * (time.perf_counter() - begin))
    print(
        json.dumps(
            {
                "ms": milliseconds,
                "logprobs": logprobs,
                "bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
                "versions": f"transformers {transformers.__version__}, torch {torch.__version__}",
            }
        )
    )


if __name__ == "__main__":
    main()
