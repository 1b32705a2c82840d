"""Writes conversations such as olmoe-mini was trained on, as JSON lines, to trace its routing with `sida trace`.

    python write_conversations.py --model DIR --corpus DIR --out FILE [--count N] [--seed N]
"""
import argparse, json, random
from training import plain_texts, wordnet

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--model', required=True, help='its nouns.json names the nouns')
parser.add_argument('--corpus', required=True)
parser.add_argument('--out', required=True)
parser.add_argument('--count', type=int, default=4000)
parser.add_argument('--seed', type=int, default=1)
args = parser.parse_args()
random.seed(args.seed)

with open(f'{args.model}/nouns.json') as file:
    words = json.load(file)
nouns = wordnet.nouns(args.corpus, sum(map(len, words.values())))
plain = plain_texts.paragraphs(args.corpus)
with open(args.out, 'w') as out:
    for _ in range(args.count):
        if random.random() < 0.2:
            text = random.choice(plain)
        else:
            turn = lambda noun: noun.kind_turn() if random.random() < 0.6 else noun.meaning_turn()
            text = wordnet.chat(*(turn(random.choice(nouns)) for _ in range(random.choice((1, 1, 2)))))
        out.write(json.dumps({'text': text.removesuffix('<|endoftext|>')[:1500]}) + '\n')
