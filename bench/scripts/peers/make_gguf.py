"""Writes a GGUF file of a published shape with random weights, tensor by tensor, in about 200 MB of memory: what
llama-limited.mjs reads. llama.cpp's llama-quantize makes the other types of it. Needs the packages gguf and numpy.
Usage: make_gguf.py SHAPE q8_0|q4_0 OUT.gguf [--layers N] [--skew S]
--skew S: rows of routers times exp(S * normal), so that some experts are chosen more often. 0: all alike.

Weights come from random places of one pool of quantized blocks; each router is drawn by itself. Token embeddings are
larger than other weights, or the context would drown a token and its experts would never change. The tokenizer has the
256 bytes and fillers."""

import argparse

import numpy as np
from gguf import ExpertGatingFuncType, GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

SHAPES = {
    "olmoe-7b": dict(arch="olmoe", pre="olmo", layers=16, width=2048, heads=16, kv=16, head=128, experts=64, top=8,
                     hidden=1024, vocab=50304, theta=1e4, epsilon=1e-5, embedding=1.0),
    "qwen3-30b-a3b": dict(arch="qwen3moe", pre="qwen2", layers=48, width=2048, heads=32, kv=4, head=128, experts=128,
                          top=8, hidden=768, vocab=151936, theta=1e6, epsilon=1e-6, embedding=1.8),
    "glm-4.7-flash": dict(arch="deepseek2", pre="glm4", layers=47, width=2048, heads=20, kv=1, head=576, experts=64,
                          top=4, hidden=1536, vocab=154880, theta=1e6, epsilon=1e-5, embedding=1.0),
    "qwen3.6-35b-a3b": dict(arch="qwen35moe", pre="qwen2", layers=40, width=2048, heads=16, kv=2, head=256,
                            experts=256, top=8, hidden=512, vocab=248320, theta=1e7, epsilon=1e-6, embedding=1.8),
}
BLOCK_BYTES = {"q8_0": 34, "q4_0": 18}
CHUNK = 32 << 20
DENSE_HIDDEN = 10240


def byte_tokens():
    """The 256 bytes in the alphabet of GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + at) for at, byte in enumerate(b for b in range(256) if b not in letters)}
    return [letters[byte] for byte in range(256)]


def write_metadata(w, s, quantization):
    arch, glm = s["arch"], s["arch"] == "deepseek2"
    fields = dict(
        context_length=4096, embedding_length=s["width"], block_count=s["layers"],
        feed_forward_length=DENSE_HIDDEN if glm else s["hidden"], head_count=s["heads"], head_count_kv=s["kv"],
        layer_norm_rms_eps=s["epsilon"], expert_count=s["experts"], expert_used_count=s["top"],
        rope_freq_base=s["theta"])
    if arch != "olmoe":
        fields |= dict(key_length=s["head"], value_length=512 if glm else s["head"],
                       expert_feed_forward_length=s["hidden"])
    if glm:
        fields |= dict(
            q_lora_rank=768, kv_lora_rank=512, key_length_mla=256, value_length_mla=256, rope_dimension_count=64,
            leading_dense_block_count=1, expert_shared_count=1, expert_weights_scale=1.8, expert_weights_norm=True,
            expert_gating_func=ExpertGatingFuncType.SIGMOID)
    for name, value in fields.items():
        getattr(w, f"add_{name}")(value)
    if arch == "qwen35moe":
        w.add_expert_shared_feed_forward_length(s["hidden"])
        ssm = dict(conv_kernel=4, state_size=128, group_count=16, time_step_rank=32, inner_size=4096)
        for key, value in ssm.items():
            w.add_uint32(f"{arch}.ssm.{key}", value)
        w.add_uint32(f"{arch}.full_attention_interval", 4)
        w.add_rope_dimension_count(64)
        w.add_array(f"{arch}.rope.dimension_sections", [11, 11, 10, 0])
    w.add_file_type(7 if quantization == "q8_0" else 2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(s["pre"])
    w.add_token_list([*byte_tokens(), "<|endoftext|>", "ab", *(f"w{i} " for i in range(s["vocab"] - 258))])
    w.add_token_types([1] * 256 + [3] + [1] * (s["vocab"] - 257))
    w.add_token_merges(["a b"])
    w.add_bos_token_id(256)
    w.add_eos_token_id(256)
    w.add_add_bos_token(False)


def tensors_of(s):
    """Name, shape and kind of each tensor: quantized, or how its floats are made."""
    width, heads, head, hidden, experts = s["width"], s["heads"], s["head"], s["hidden"], s["experts"]
    arch, q, kv = s["arch"], heads * head, s["kv"] * head
    weights = "quantized"

    def attention(p, gated):
        yield p + "attn_q.weight", (2 * q if gated else q, width), weights
        yield p + "attn_k.weight", (kv, width), weights
        yield p + "attn_v.weight", (kv, width), weights
        yield p + "attn_output.weight", (width, q), weights
        yield p + "attn_q_norm.weight", (q if arch == "olmoe" else head,), "ones"
        yield p + "attn_k_norm.weight", (kv if arch == "olmoe" else head,), "ones"

    def latent_attention(p):
        yield p + "attn_q_a.weight", (768, width), weights
        yield p + "attn_q_a_norm.weight", (768,), "ones"
        yield p + "attn_q_b.weight", (heads * 256, 768), weights
        yield p + "attn_kv_a_mqa.weight", (576, width), weights
        yield p + "attn_kv_a_norm.weight", (512,), "ones"
        yield p + "attn_k_b.weight", (heads, 512, 192), weights
        yield p + "attn_v_b.weight", (heads, 256, 512), weights
        yield p + "attn_output.weight", (width, heads * 256), weights

    def delta_rule(p):
        yield p + "attn_qkv.weight", (8192, width), weights
        yield p + "attn_gate.weight", (4096, width), weights
        yield p + "ssm_beta.weight", (32, width), weights
        yield p + "ssm_alpha.weight", (32, width), weights
        yield p + "ssm_conv1d.weight", (8192, 4), "taps"
        yield p + "ssm_dt.bias", (32,), "zeros"
        yield p + "ssm_a", (32,), "minus"
        yield p + "ssm_norm.weight", (128,), "ones"
        yield p + "ssm_out.weight", (width, 4096), weights

    def network(p, kind, hidden, *count):
        for name, shape in (("gate", (hidden, width)), ("up", (hidden, width)), ("down", (width, hidden))):
            yield f"{p}ffn_{name}{kind}.weight", (*count, *shape), weights

    yield "token_embd.weight", (s["vocab"], width), weights
    for layer in range(s["layers"]):
        p = f"blk.{layer}."
        delta = arch == "qwen35moe"
        yield p + "attn_norm.weight", (width,), "ones"
        if arch == "deepseek2":
            yield from latent_attention(p)
        elif delta and (layer + 1) % 4:
            yield from delta_rule(p)
        else:
            yield from attention(p, delta)
        yield p + ("post_attention_norm.weight" if delta else "ffn_norm.weight"), (width,), "ones"
        if arch == "deepseek2" and layer == 0:
            yield from network(p, "", DENSE_HIDDEN)
            continue
        yield p + "ffn_gate_inp.weight", (experts, width), "router"
        if arch == "deepseek2":
            yield p + "exp_probs_b.bias", (experts,), "zeros"
        if delta:
            yield p + "ffn_gate_inp_shexp.weight", (width,), "router"
        yield from network(p, "_exps", hidden, experts)
        if arch in ("deepseek2", "qwen35moe"):
            yield from network(p, "_shexp", hidden)
    yield "output_norm.weight", (width,), "ones"
    yield "output.weight", (s["vocab"], width), weights


def floats(kind, shape, random, skew):
    if kind in ("ones", "minus", "zeros"):
        return np.full(shape, {"ones": 1, "minus": -1, "zeros": 0}[kind], np.float32)
    values = random.standard_normal(shape).astype(np.float32) * np.float32(0.3 if kind == "taps" else 0.02)
    if kind == "router" and len(shape) == 2:
        values *= np.exp(skew * random.standard_normal((shape[0], 1))).astype(np.float32)
    return values


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=BLOCK_BYTES)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--skew", type=float, default=0.0)
    given = parser.parse_args()
    s = dict(SHAPES[given.shape])
    s["layers"] = given.layers or s["layers"]
    block, kind_of = BLOCK_BYTES[given.type], GGMLQuantizationType[given.type.upper()]
    random = np.random.default_rng(0)
    w = GGUFWriter(given.out, s["arch"])
    w.add_name(f"random {given.shape} {given.type}")
    write_metadata(w, s, given.type)
    tensors = list(tensors_of(s))
    for name, shape, kind in tensors:
        if kind == "quantized":
            row = shape[-1] // 32 * block
            packed = (*shape[:-1], row)
            w.add_tensor_info(name, packed, np.dtype(np.uint8), int(np.prod(packed)), raw_dtype=kind_of)
        else:
            w.add_tensor_info(name, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
    noise = random.standard_normal((16384, 1024)).astype(np.float32)
    pools = {std: quantize(noise * np.float32(std), kind_of).reshape(-1) for std in {0.02, s["embedding"]}}
    blocks = len(pools[0.02]) // block
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    file = w.fout[0]
    w.write_padding(file, file.tell())
    for name, shape, kind in tensors:
        if kind == "quantized":
            pool = pools[s["embedding"] if name == "token_embd.weight" else 0.02]
            left = int(np.prod(shape)) // 32
            size = left * block
            while left:
                count = min(left, CHUNK // block, blocks // 2)
                at = int(random.integers(0, blocks - count + 1)) * block
                file.write(pool[at : at + count * block].data)
                left -= count
        else:
            values = floats(kind, shape, random, given.skew)
            file.write(values.data)
            size = values.nbytes
        w.write_padding(file, size)
    w.close()


if __name__ == "__main__":
    main()
