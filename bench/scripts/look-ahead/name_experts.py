"""How well the experts of a MoE layer can be named before it runs, by what is known when. Needs the venv of
bench/scripts/transformers/make-venv.sh.

    build/peers-venv/bin/python bench/scripts/look-ahead/name_experts.py --train FILE --held-out FILE [--out NAME]

FILE has lines of JSON with a "text". Models of OLMoE's kind. models/write_conversations.py writes such texts.
Writes bench/results/NAME.json (name-experts by default).
"""

import argparse
import json
import pathlib
import platform
import subprocess
import sys

import numpy as np
import torch
import transformers
from transformers import AutoTokenizer, OlmoeForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORST_RANK = 8


class Record:
    """What each token of the texts had: its id, states before each layer's attention and experts, router logits."""

    def __init__(self, model, tokenizer, path, most):
        layers = model.model.layers
        before_attention, before_experts, logits = [[[] for _ in layers] for _ in range(3)]
        hooks = []
        for i, layer in enumerate(layers):
            keep = lambda into: lambda _, inputs: into.append(inputs[0][0].clone())
            hooks.append(layer.input_layernorm.register_forward_pre_hook(keep(before_attention[i])))
            hooks.append(layer.post_attention_layernorm.register_forward_pre_hook(keep(before_experts[i])))
            normed = lambda into, gate: lambda _, inputs: into.append(
                inputs[0].reshape(-1, inputs[0].shape[-1]) @ gate.T
            )
            hooks.append(layer.mlp.register_forward_pre_hook(normed(logits[i], layer.mlp.gate.weight)))
        ids = []
        with torch.inference_mode(), open(path) as file:
            for line in file:
                text = tokenizer(json.loads(line)["text"])["input_ids"]
                if len(text) < 2:
                    continue
                model.model(torch.tensor([text]), use_cache=False)
                ids += text
                if len(ids) >= most:
                    break
        for hook in hooks:
            hook.remove()
        join = lambda lists: [torch.cat(parts).clone() for parts in lists]
        self.ids = torch.tensor(ids)
        self.before_attention, self.before_experts, self.logits = map(join, (before_attention, before_experts, logits))


def normed(states):
    return states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + 1e-5)


def wanted_of(logits, k):
    return torch.zeros_like(logits).scatter_(1, logits.topk(k).indices, 1)


def train(states, wanted, epochs, seed):
    """A linear map whose outputs are the log-odds that the router chooses each expert."""
    torch.manual_seed(seed)
    linear = torch.nn.Linear(states.shape[1], wanted.shape[1])
    optimizer = torch.optim.AdamW(linear.parameters(), lr=3e-3, weight_decay=1e-4)
    steps = epochs * (len(states) // 512)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(states)).split(512)[: len(states) // 512]:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(linear(states[batch]), wanted[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return lambda states: linear(states).detach()


def token_table(ids, wanted, vocabulary):
    """Log-odds of each expert by the token's id, shrunk to the mean over all tokens."""
    counts = torch.zeros(vocabulary).index_add_(0, ids, torch.ones(len(ids)))
    sums = torch.zeros(vocabulary, wanted.shape[1]).index_add_(0, ids, wanted)
    chances = (sums + 2 * wanted.mean(0)) / (counts[:, None] + 2)
    return lambda ids: torch.logit(chances[ids], 1e-4)


def absent_of(wanted, slots):
    """Which experts are not among the `slots` that were needed last, token by token."""
    absent = torch.ones_like(wanted)
    order = list(range(wanted.shape[1]))
    for row, needs in enumerate(wanted):
        absent[row, order[-slots:]] = 0
        needed = needs.nonzero()[:, 0].tolist()
        order = [expert for expert in order if expert not in needed] + needed
    return absent


def combine(scores, wanted, absent):
    """Logistic regression of an absent expert's need on the scores of several sources."""
    pick = absent.bool()
    features = torch.stack([score[pick] for score in scores], 1)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    linear = torch.nn.Linear(len(scores), 1)
    torch.nn.init.zeros_(linear.weight)
    optimizer = torch.optim.LBFGS(linear.parameters(), max_iter=100)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            linear((features - mean) / deviation)[:, 0], wanted[pick]
        )
        loss.backward()
        return loss

    optimizer.step(closure)
    return lambda scores: torch.sigmoid(linear((torch.stack(scores, -1) - mean) / deviation)[..., 0].detach())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/olmoe-mini")
    parser.add_argument("--train", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--most", type=int, default=120_000, help="tokens of --train")
    parser.add_argument("--resident", type=float, default=0.25, help="share of a layer's experts")
    parser.add_argument("--least-chance", type=float, default=0.4, help="from which an absent expert counts as named")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="name-experts")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    model = OlmoeForCausalLM.from_pretrained(ROOT / args.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(ROOT / args.model)
    k, experts = model.config.num_experts_per_tok, model.config.num_experts
    learned = Record(model, tokenizer, args.train, args.most)
    # The first half of the held-out tokens calibrates chances, the second is judged.
    held = Record(model, tokenizer, args.held_out, args.most)
    half = len(held.ids) // 2
    print(f"{len(learned.ids)} tokens to learn from, {len(held.ids)} held out", file=sys.stderr)

    names = {}
    for layer in range(len(model.model.layers)):
        module = model.model.layers[layer]
        router = lambda states: (normed(states) * module.post_attention_layernorm.weight @ module.mlp.gate.weight.T).detach()
        wanted = wanted_of(learned.logits[layer], k)
        table = token_table(learned.ids, wanted, model.config.vocab_size)
        scores = {"the token, by a table": table(held.ids)}

        def states_of(time, record):
            """States that are known before this layer runs, by how long before."""
            if time == "before its attention":
                return record.before_attention[layer]
            back = 1 if time == "one layer before" else 2
            return record.before_experts[layer - back] if layer >= back else None

        for time in ("two layers before", "one layer before", "before its attention"):
            states = states_of(time, held)
            if states is None:
                continue
            linear = train(normed(states_of(time, learned)), wanted, args.epochs, layer)
            scores[f"{time}, its router"] = router(states)
            scores[f"{time}, a trained linear"] = linear(normed(states))
        truth = wanted_of(held.logits[layer], k)
        absent = absent_of(truth, round(args.resident * experts))
        stacks = {name: [name] for name in scores}
        for time in ("one layer before", "before its attention"):
            for kind in ("its router", "a trained linear"):
                name = f"{time}, {kind}"
                if name in scores:
                    stacks[f"{name}, with the table"] = [name, "the token, by a table"]
        for name, sources in stacks.items():
            of = [scores[source] for source in sources]
            chance = combine([s[:half] for s in of], truth[:half], absent[:half])([s[half:] for s in of])
            needs, away = truth[half:], absent[half:]
            # Recall looks at all experts, as a source alone ranks them; a stack ranks by its joint chance.
            ranked = (of[0][half:] if len(of) == 1 else chance).topk(WORST_RANK).indices
            held_ranks = needs.gather(1, ranked)
            named = (chance >= args.least_chance).float() * away
            entry = names.setdefault(name, [])
            missing = (needs * away).sum()
            entry.append({
                "layer": layer,
                "recallAtK": (held_ranks[:, :k].sum() / needs.sum()).item(),
                "recallAt2K": (held_ranks[:, : 2 * k].sum() / needs.sum()).item(),
                "byRank": held_ranks.mean(0).tolist(),
                "missing": missing.item(),
                "missingNamed": (named * needs).sum().item(),
                "named": named.sum().item(),
            })
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    rows = []
    for name, layers in names.items():
        mean = lambda key: float(np.mean([entry[key] for entry in layers]))
        total = lambda key: sum(entry[key] for entry in layers)
        rows.append({
            "known": name,
            "layers": len(layers),
            "recallAtK": mean("recallAtK"),
            "recallAt2K": mean("recallAt2K"),
            "byRank": np.mean([entry["byRank"] for entry in layers], 0).tolist(),
            "ofMissingNamed": total("missingNamed") / total("missing"),
            "ofNamedRight": total("missingNamed") / max(1, total("named")),
            "byLayer": layers,
        })
        row = rows[-1]
        print(
            f"{name} ({len(layers)} layers): recall@{k} {row['recallAtK']:.3f}, @{2 * k} {row['recallAt2K']:.3f}; by rank "
            + " ".join(f"{share:.2f}" for share in row["byRank"])
            + f"; of the missing named {row['ofMissingNamed']:.3f}, of the named right {row['ofNamedRight']:.3f}"
        )
    result = {
        "question": "How well can a layer's experts be named before it runs?",
        "command": " ".join(["python", *sys.argv]),
        "commit": git("rev-parse", "--short", "HEAD"),
        "model": pathlib.Path(args.model).name,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()},
        "tokens": {"learned": len(learned.ids), "calibrated": half, "judged": len(held.ids) - half},
        "resident": args.resident,
        "leastChance": args.least_chance,
        "epochs": args.epochs,
        "rows": rows,
    }
    (ROOT / f"bench/results/{args.out}.json").write_text(json.dumps(result, indent=1) + "\n")


main()
