"""Paragraphs of running text: WordNet's examples, and Python's documentation (PSF licence)."""
import glob, random, re

MARKUP = re.compile(r'^(\.\.|:|=|-|~|\*\*\*|>>>|#|\+|\|)')


def paragraphs(corpus):
    found = []
    for path in sorted(glob.glob(f'{corpus}/**/_sources/**/*.rst.txt', recursive=True)):
        text = open(path, encoding='utf8', errors='ignore').read()
        for part in re.split(r'\n\s*\n', text):
            if MARKUP.match(part.strip()) or part.startswith(' ') or len(part) < 80:
                continue
            plain = re.sub(r':[\w:+-]+:`[~!]?([^`<]+?)(?: <[^`]*>)?`', r'\1', part)
            plain = re.sub(r'``?([^`]+)``?_*', r'\1', re.sub(r'\s+', ' ', plain)).replace('**', '').strip()
            found.append(f'{plain}<|endoftext|>')
    for line in open(glob.glob(f'{corpus}/**/data.noun', recursive=True)[0], encoding='utf8', errors='ignore'):
        examples = re.findall(r'"([^"]{30,})"', line) if not line.startswith('  ') else []
        found += [f'{each}<|endoftext|>' for each in examples]
    random.shuffle(found)
    return found
