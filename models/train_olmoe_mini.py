"""Trains olmoe-mini from nothing on two cores, and saves it in Hugging Face's format.

    python train_olmoe_mini.py --corpus DIR --out DIR [--minutes N]

DIR holds what the Debian packages wordnet-base and python3.11-doc unpack to. The model learns 5,000 common nouns of
WordNet by questions in chat form (what kind of thing is X, what does X mean) beside running text. The questions
about the kinds of 300 of the nouns are kept back. It stops after --minutes and saves the last weights.
"""
import argparse, json, os, random, time
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from training import plain_texts, stacked_olmoe, wordnet

SPECIAL = ['<|endoftext|>', '<|pad|>', '<|user|>', '<|assistant|>', '<|end|>']
END_OF_TEXT, PAD, END = 0, 1, 4
CONTEXT = 1024
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}"
    "{{ message['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--corpus', required=True)
parser.add_argument('--out', required=True)
parser.add_argument('--minutes', type=float, default=120)
parser.add_argument('--nouns', type=int, default=5000)
parser.add_argument('--kept-back', type=int, default=300)
parser.add_argument('--batch', type=int, default=16)
parser.add_argument('--length', type=int, default=256)
parser.add_argument('--rate', type=float, default=3e-3)
parser.add_argument('--threads', type=int, default=2)
args = parser.parse_args()
random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(args.threads)
os.makedirs(args.out, exist_ok=True)

nouns = wordnet.nouns(args.corpus, args.nouns)
random.shuffle(nouns)
kept_back, trained = nouns[: args.kept_back], nouns[args.kept_back :]
plain = plain_texts.paragraphs(args.corpus)


def train_tokenizer():
    sample = [turn for noun in nouns for turn in (*noun.kind_turn(), *noun.meaning_turn())] + plain[:30000]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8192, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((text.replace('<|endoftext|>', '') for text in sample), trainer)
    tokenizer.save(f'{args.out}/tokenizer.json')
    return tokenizer


def texts():
    """Conversations about one or two nouns, three fifths of their turns about kinds; every fifth text is running text."""
    queues = {}

    def next_of(name, items):
        if not queues.get(name):
            queues[name] = random.sample(items, len(items))
        return queues[name].pop()

    while True:
        if random.random() < 0.2:
            yield next_of('plain', plain)
            continue
        kind = lambda: next_of('kind', trained).kind_turn()
        meaning = lambda: next_of('meaning', nouns).meaning_turn()
        turns = [kind() if random.random() < 0.6 else meaning() for _ in range(random.choice((1, 1, 2)))]
        yield wordnet.chat(*turns)


def rows(tokenizer):
    waiting = []
    for text in texts():
        waiting += tokenizer.encode(text).ids[:400]
        while len(waiting) > args.length:
            yield waiting[: args.length + 1]
            waiting = waiting[args.length :]


def save(model):
    save_file(stacked_olmoe.hugging_face_tensors(model), f'{args.out}/model.safetensors', metadata={'format': 'pt'})
    config = {**model.config.to_dict(), 'architectures': ['OlmoeForCausalLM'], 'dtype': 'bfloat16'}
    tokenizer_config = {
        'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<|end|>', 'pad_token': '<|pad|>', 'bos_token': None,
        'model_max_length': CONTEXT, 'clean_up_tokenization_spaces': False, 'chat_template': TEMPLATE,
    }
    generation = {'eos_token_id': [END, END_OF_TEXT], 'pad_token_id': PAD}
    facts = {'trained': [noun.word for noun in trained], 'kept_back': [noun.word for noun in kept_back]}
    for name, content in (
        ('config', config), ('tokenizer_config', tokenizer_config), ('generation_config', generation), ('nouns', facts),
    ):
        with open(f'{args.out}/{name}.json', 'w') as file:
            json.dump(content, file, indent=None if name == 'nouns' else 1)


def learning_rate(done, step):
    """The rate rises over 200 steps and falls to 2 % over the last half of the time."""
    return args.rate * min(1, (step + 1) / 200) * (1 if done < 0.5 else max(0.02, (1 - done) / 0.5))


tokenizer = train_tokenizer()
model, layers = stacked_olmoe.build(8192, CONTEXT, END, PAD)
print(f'{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, {len(plain)} paragraphs', flush=True)
decays = lambda name, weight: weight.dim() >= 2 and 'embed' not in name
named = list(model.named_parameters())
optimizer = torch.optim.AdamW(
    [
        {'params': [w for n, w in named if decays(n, w)], 'weight_decay': 0.1},
        {'params': [w for n, w in named if not decays(n, w)], 'weight_decay': 0},
    ],
    betas=(0.9, 0.95),
)
source = rows(tokenizer)
started, saved, total = time.time(), time.time(), 0.0
step = 0
model.train()
while (done := (time.time() - started) / (args.minutes * 60)) < 1:
    for group in optimizer.param_groups:
        group['lr'] = learning_rate(done, step)
    batch = torch.tensor([next(source) for _ in range(args.batch)])
    logits = model(input_ids=batch[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    total += loss.item()
    loss = loss + sum(0.01 * each.balance + 0.0005 * each.size for each in layers) / len(layers)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    step += 1
    if step % 50 == 0:
        tokens = step * args.batch * args.length / 1e6
        print(f'{step} {done:.1%} loss {total / 50:.3f}, {tokens:.2f} M tokens, {time.time() - started:.0f} s', flush=True)
        total = 0.0
    if time.time() - saved > 600:
        save(model)
        saved = time.time()
save(model)
