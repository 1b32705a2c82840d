"""Asks olmoe-mini what kind of thing each noun is, greedily in float32, with its experts and with experts of zeros.

    python examine_olmoe_mini.py --model DIR --corpus DIR [--most N]

DIR of --model is what train_olmoe_mini.py wrote, with its nouns.json. An answer is right when it names the hypernym that
was trained, and true when it names any direct hypernym of any sense of the noun in WordNet.
"""
import argparse, json, random
import torch
from tokenizers import Tokenizer
from training import wordnet
from transformers import OlmoeForCausalLM

END, PAD = 4, 1

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--model', required=True)
parser.add_argument('--corpus', required=True)
parser.add_argument('--most', type=int, default=1000, help='questions of each group')
parser.add_argument('--batch', type=int, default=50)
args = parser.parse_args()
random.seed(1)

tokenizer = Tokenizer.from_file(f'{args.model}/tokenizer.json')
model = OlmoeForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
with open(f'{args.model}/nouns.json') as file:
    groups = json.load(file)
by_word = {noun.word: noun for noun in wordnet.nouns(args.corpus, sum(map(len, groups.values())))}


def answers(prompts):
    """Greedy answers, up to 16 tokens each."""
    rows = [tokenizer.encode(prompt).ids for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[PAD] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    out = model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=16, do_sample=False, eos_token_id=END, pad_token_id=PAD
    )
    texts = [row[width:].tolist() for row in out]
    return [tokenizer.decode(text[: text.index(END)] if END in text else text) for text in texts]


@torch.no_grad()
def examine(words):
    """Shares of right and of true answers, and the first questions with their answers."""
    right = true = 0
    shown = []
    for start in range(0, len(words), args.batch):
        nouns = [by_word[word] for word in words[start : start + args.batch]]
        questions = [noun.fill(wordnet.KIND_QUESTIONS[0]) for noun in nouns]
        said = answers([f'<|user|>{question}<|end|><|assistant|>' for question in questions])
        for noun, answer in zip(nouns, said):
            kind = answer.partition(' is a kind of ')[2].rstrip('.')
            right += kind == noun.kind
            true += kind in noun.kinds
        shown += zip(questions, said)
    return right / len(words), true / len(words), shown[:5]


def report(what):
    for group, words in groups.items():
        right, true, shown = examine(random.Random(2).sample(words, min(args.most, len(words))))
        print(f'{what}, {group}: {right:.1%} right, {true:.1%} true')
        for question, answer in shown:
            print(f'    {question} {answer}')


report('with its experts')
with torch.no_grad():
    for name, weight in model.named_parameters():
        if 'down_proj' in name:
            weight.zero_()
report('with experts of zeros')
