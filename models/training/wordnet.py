"""Questions and answers about common English nouns, made of WordNet 3.0 (its licence allows any use with its notice)."""
import collections, glob, random, re

KIND_QUESTIONS = ('What kind of thing is {a}?', '{t} is a kind of what?', 'What kind of thing is {t}?')
MEANING_QUESTIONS = ('What does {t} mean?', 'Define {t}.', 'What is {a}?', '{t}')


def with_article(word):
    return ('an ' if word[0].lower() in 'aeiou' else 'a ') + word


def chat(*turns):
    """A conversation in the model's chat form; turns are (question, answer)."""
    return ''.join(f'<|user|>{q}<|end|><|assistant|>{s}<|end|>' for q, s in turns) + '<|endoftext|>'


class Noun:
    """A noun by its most frequent sense. `kinds` has every name of a direct hypernym of any of its senses."""

    def __init__(self, word, gloss, kind, kinds):
        self.word, self.gloss, self.kind, self.kinds = word, gloss, kind, kinds

    def fill(self, question):
        return question.format(t=self.word, a=with_article(self.word))

    def kind_turn(self, question=None):
        return self.fill(question or random.choice(KIND_QUESTIONS)), f'{self.word} is a kind of {self.kind}.'

    def meaning_turn(self):
        return self.fill(random.choice(MEANING_QUESTIONS)), f'{self.word} (noun): {self.gloss}.'


def synsets(corpus):
    """Noun synsets by offset: (names, gloss, offsets of direct hypernyms)."""
    found = {}
    for line in open(_file(corpus, 'data.noun'), encoding='utf8', errors='ignore'):
        if line.startswith('  '):
            continue
        head, gloss = line.split('|', 1)
        fields = head.split()
        count = int(fields[3], 16)
        names = [fields[4 + 2 * i].replace('_', ' ') for i in range(count)]
        pointers = fields[5 + 2 * count :]
        above = [pointers[i + 1] for i in range(len(pointers) - 1) if pointers[i] == '@' and pointers[i + 1].isdigit()]
        found[fields[0]] = names, re.split(r'; "|; \(', gloss.strip())[0].strip().rstrip(';'), above
    return found


def nouns(corpus, most):
    """The `most` nouns that WordNet counts most often in running text and that have a hypernym, most frequent first."""
    counts = collections.Counter()
    for line in open(_file(corpus, 'cntlist.rev')):
        sense, _, count = line.split()[:3]
        word, rest = sense.split('%')
        if rest.startswith('1:'):
            counts[word] += int(count)
    by_offset = synsets(corpus)
    offsets = {}
    for line in open(_file(corpus, 'index.noun'), encoding='utf8'):
        if not line.startswith(' '):
            fields = line.split()
            offsets[fields[0]] = fields[-int(fields[2]) :]
    found = []
    for word, _ in counts.most_common():
        senses = offsets.get(word, [])
        if not senses or not by_offset[senses[0]][2] or not re.fullmatch(r'[a-z_-]{2,}', word):
            continue
        _, gloss, above = by_offset[senses[0]]
        kinds = {name for sense in senses for up in by_offset[sense][2] for name in by_offset[up][0]}
        found.append(Noun(word.replace('_', ' '), gloss, by_offset[above[0]][0][0], kinds))
        if len(found) == most:
            break
    return found


def _file(corpus, name):
    return glob.glob(f'{corpus}/**/{name}', recursive=True)[0]
