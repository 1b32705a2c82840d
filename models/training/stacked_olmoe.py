"""OLMoE of transformers with each layer's experts as one tensor: a batched product trains many small experts faster."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers.models.olmoe.modeling_olmoe as modeling
from transformers import OlmoeConfig, OlmoeForCausalLM


class StackedExperts(nn.Module):
    """Top-k experts. While training, a token beyond twice an expert's even share skips that expert."""

    def __init__(self, config):
        super().__init__()
        self.count, self.k = config.num_experts, config.num_experts_per_tok
        d, f = config.hidden_size, config.intermediate_size
        self.gate = nn.Linear(d, self.count, bias=False)
        self.gate_up = nn.Parameter(torch.randn(self.count, d, 2 * f) * d**-0.5)
        self.down = nn.Parameter(torch.randn(self.count, f, d) * f**-0.5 / math.sqrt(2 * config.num_hidden_layers))

    def forward(self, hidden):
        x = hidden.reshape(-1, hidden.shape[-1])
        logits = F.linear(x, self.gate.weight).float()
        probabilities = logits.softmax(-1)
        weights, chosen = probabilities.topk(self.k, -1)
        expert = chosen.flatten()
        tokens_of = torch.bincount(expert, minlength=self.count)
        self.balance = self.count * ((tokens_of / tokens_of.sum()) * probabilities.mean(0)).sum()
        self.size = torch.logsumexp(logits, -1).pow(2).mean()
        order = expert.argsort(stable=True)
        place = torch.empty_like(expert)
        place[order] = torch.arange(expert.numel()) - (tokens_of.cumsum(0) - tokens_of)[expert[order]]
        most = int(tokens_of.max())
        capacity = min(most, max(32, 2 * expert.numel() // self.count)) if self.training else most
        kept = place < capacity
        row = expert * capacity + place
        token = torch.arange(x.shape[0]).repeat_interleave(self.k)
        gathered = x.new_zeros(self.count * capacity, x.shape[1]).index_copy(0, row[kept], x[token[kept]])
        gate, up = torch.bmm(gathered.view(self.count, capacity, -1), self.gate_up).chunk(2, -1)
        out = torch.bmm(F.silu(gate) * up, self.down).view(self.count * capacity, -1)
        out = out[row.clamp(max=self.count * capacity - 1)] * (weights.flatten() * kept)[:, None]
        return out.view(-1, self.k, x.shape[1]).sum(1).view(hidden.shape).to(hidden.dtype)


def build(vocabulary, context, end, pad):
    """The untrained model and its layers of experts."""
    modeling.OlmoeSparseMoeBlock = StackedExperts
    modeling.OlmoePreTrainedModel._init_weights = lambda self, module: None
    config = OlmoeConfig(
        vocab_size=vocabulary, hidden_size=192, intermediate_size=96, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=6, num_experts=32, num_experts_per_tok=4, norm_topk_prob=False,
        max_position_embeddings=context, bos_token_id=None, eos_token_id=end, pad_token_id=pad,
        tie_word_embeddings=False,
    )
    model = OlmoeForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if 'norm' in name:
                weight.fill_(1)
            elif 'embed_tokens' in name:
                weight.normal_(0, 1.0)
            elif name.endswith('gate.weight') or 'lm_head' in name:
                weight.normal_(0, 0.02)
            elif weight.dim() == 2:
                depth = math.sqrt(2 * config.num_hidden_layers) if 'o_proj' in name else 1
                weight.normal_(0, weight.shape[1] ** -0.5 / depth)
    return model, [each for each in model.modules() if isinstance(each, StackedExperts)]


def hugging_face_tensors(model):
    """The weights by the names of Hugging Face checkpoints: bf16, but norms and routers in f32."""
    tensors = {}
    for name, weight in model.state_dict().items():
        base = name.rsplit('.', 1)[0]
        for e in range(weight.shape[0] if name.endswith(('.gate_up', '.down')) else 0):
            if name.endswith('.down'):
                tensors[f'{base}.experts.{e}.down_proj.weight'] = weight[e].T
            else:
                gate, up = weight[e].T.chunk(2, 0)
                tensors[f'{base}.experts.{e}.gate_proj.weight'] = gate
                tensors[f'{base}.experts.{e}.up_proj.weight'] = up
        if not name.endswith(('.gate_up', '.down')):
            tensors[name] = weight
    exact = lambda name: 'norm' in name or name.endswith('gate.weight')
    return {name: (w if exact(name) else w.bfloat16()).contiguous() for name, w in tensors.items()}
