/**
 * Texts that match a pattern with lookaheads, as a deterministic automaton: a schema may bind a text by several
 * patterns, a format and a length together. States are derivatives of the expression (Brzozowski 1964).
 */

/** Characters and classes, groups and repetitions of a pattern. */
export const TOKENS =
  /\\u\{\w+\}|\\u\w{4}|\\x\w\w|\\c\w|\\p\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<\w+>|:|<?[=!]))?|(?:[*+?]|\{\d+(?:,\d*)?\})\??|./gisu;

/** First and last characters, in order. */
export type Ranges = readonly (readonly [number, number])[];

export interface State {
  /** Whether a text may end here. */
  ends: boolean;
  next: { ranges: Ranges; state: number }[];
}

const MOST_STATES = 6_000;
/** Repetitions of parts with lookaheads. */
const MOST_UNROLLED = 64;
/** Bounds the work: an expression can have large states. */
const MOST_NODES = 400_000;
const LAST = 0x10ffff;
const ENDLESS = Number.POSITIVE_INFINITY;

export class NoText extends Error {}

/** The first state is that of the empty text. Throws an Error with the reason where there is no such automaton. */
export function automatonOf(pattern: string, most = MOST_STATES): State[] {
  const tokens = [...pattern.matchAll(TOKENS)].map(([token]) => token);
  const classes = new Map<string, Ranges>();
  for (const token of tokens)
    if (!/^(?:[$^|)*+?(]|\{\d)/.test(token) && !classes.has(token)) classes.set(token, rangesOf(token));
  const kinds = kindsOf([...classes.values()]);
  const nodes = new Nodes((1n << BigInt(kinds.length)) - 1n);
  const setOf = (token: string) => {
    const own = kinds.map(([[from]], at) => (isWithin(from, classes.get(token)!) ? 1n << BigInt(at) : 0n));
    return nodes.set(own.reduce((all, bit) => all | bit, 0n));
  };
  const whole = new Reader(tokens, nodes, setOf).whole();
  return statesOf(whole, nodes, kinds, most);
}

export function rangesOf(token: string): Ranges {
  const own = token.codePointAt(0)!;
  if (/^[^.\\[]$/u.test(token)) return [[own, own]];
  const expression = new RegExp(`^${token}$`, 'u');
  // Characters beyond 16 bits match all or none where the class names none of them.
  const last = /\\[pu]\{|[\u{10000}-\u{10ffff}]/iu.test(token) ? LAST : 0x10000;
  const ranges: [number, number][] = [];
  for (let code = 0; code <= last; code += 1) {
    if ((code & 0x1ff800) === 0xd800 || !expression.test(String.fromCodePoint(code))) continue;
    const end = code === last ? LAST : code;
    const before = ranges.at(-1);
    if (before?.[1] === code - 1) before[1] = end;
    else ranges.push([code, end]);
  }
  return ranges;
}

export function isWithin(code: number, ranges: Ranges): boolean {
  return ranges.some(([from, to]) => from <= code && code <= to);
}

/** Parts of all characters between which no class tells. */
function kindsOf(classes: readonly Ranges[]): (readonly [readonly [number, number], ...Ranges])[] {
  const all = classes.flat().flatMap(([from, to]) => [from, to + 1]);
  const starts = [...new Set([0, 0xd800, 0xe000, ...all])]
    .filter((code) => code <= LAST)
    .sort((a, b) => a - b);
  const kinds = new Map<string, [[number, number], ...[number, number][]]>();
  starts.forEach((from, at) => {
    if (from === 0xd800) return;
    const key = classes.map((ranges) => (isWithin(from, ranges) ? 1 : 0)).join('');
    const range: [number, number] = [from, (starts[at + 1] ?? LAST + 1) - 1];
    const known = kinds.get(key);
    if (known === undefined) kinds.set(key, [range]);
    else known.push(range);
  });
  return [...kinds.values()];
}

interface Node {
  id: number;
  kind: 'set' | 'sequence' | 'or' | 'and' | 'not' | 'repeat';
  parts: readonly Node[];
  /** Of a set, a bit for each kind of characters. */
  bits: bigint;
  least: number;
  most: number;
  /** Whether it matches the empty text. */
  empty: boolean;
  /** Characters that its texts may have, and how many. */
  has: bigint;
  shortest: number;
  longest: number;
  derivatives: Map<number, Node>;
}

/** Expressions, each of them once. */
class Nodes {
  readonly #known = new Map<string, Node>();
  /** The bits of all characters. */
  readonly #all: bigint;
  readonly never: Node;
  readonly nothing: Node;
  readonly anything: Node;

  constructor(all: bigint) {
    this.#all = all;
    this.never = this.set(0n);
    this.nothing = this.#node('sequence', [], true);
    this.anything = this.#node('repeat', [this.set(all)], true, { least: 0, most: ENDLESS });
  }

  #node(kind: Node['kind'], parts: readonly Node[], empty: boolean, own: Partial<Node> = {}): Node {
    const { bits = 0n, least = 1, most = 1 } = own;
    const key = `${kind} ${bits} ${least} ${most} ${parts.map(({ id }) => id).join()}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const id = this.#known.size;
    if (id > MOST_NODES) throw new Error('it takes too large an automaton');
    const size = this.#size(kind, parts, least, most);
    const has = kind === 'not' ? this.#all : parts.reduce((sum, part) => sum | part.has, bits);
    const node = { id, kind, parts, bits, least, most, empty, has, ...size, derivatives: new Map() };
    this.#known.set(key, node);
    return node;
  }

  #size(kind: Node['kind'], parts: readonly Node[], least: number, most: number) {
    const [short, long] = [parts.map(({ shortest }) => shortest), parts.map(({ longest }) => longest)];
    const sum = (all: number[]) => all.reduce((one, other) => one + other, 0);
    if (kind === 'set') return { shortest: 1, longest: 1 };
    if (kind === 'sequence') return { shortest: sum(short), longest: sum(long) };
    if (kind === 'or') return { shortest: Math.min(...short), longest: Math.max(...long) };
    if (kind === 'and') return { shortest: Math.max(...short), longest: Math.min(...long) };
    if (kind === 'not') return { shortest: 0, longest: ENDLESS };
    return { shortest: short[0]! * least, longest: long[0] === 0 ? 0 : long[0]! * most };
  }

  set(bits: bigint): Node {
    return this.#node('set', [], false, { bits });
  }

  sequence(first: Node, rest: Node): Node {
    if (first === this.never || rest === this.never) return this.never;
    if (first === this.nothing || rest === this.nothing) return first === this.nothing ? rest : first;
    if (first.kind === 'sequence')
      return this.sequence(first.parts[0]!, this.sequence(first.parts[1]!, rest));
    if (first === this.anything && rest === first) return first;
    return this.#node('sequence', [first, rest], first.empty && rest.empty);
  }

  or(...given: readonly Node[]): Node {
    const all = this.#flat('or', given, this.never);
    if (all.includes(this.anything)) return this.anything;
    const bits = all.reduce((sum, { kind, bits }) => (kind === 'set' ? sum | bits : sum), 0n);
    const parts = all.filter(({ kind }) => kind !== 'set');
    if (bits !== 0n) parts.push(this.set(bits));
    if (parts.length < 2) return parts[0] ?? this.never;
    const empty = parts.some((part) => part.empty);
    return this.#node('or', parts, empty);
  }

  and(...given: readonly Node[]): Node {
    const all = this.#flat('and', given, this.anything);
    // Of two that hold each other, one stays.
    const parts = all.reduce((kept, part) => {
      const others = kept.filter((each) => each !== part);
      return others.some((other) => covers(part, other)) ? others : kept;
    }, all);
    const empty = parts.every((part) => part.empty);
    if (parts.includes(this.never)) return this.never;
    if (parts.includes(this.nothing)) return empty ? this.nothing : this.never;
    return parts.length < 2 ? (parts[0] ?? this.anything) : this.#node('and', parts, empty);
  }

  /** Parts of parts, in order and each once, without those that change nothing. */
  #flat(kind: Node['kind'], given: readonly Node[], idle: Node): Node[] {
    const all = new Set(given.flatMap((each) => (each.kind === kind ? each.parts : [each])));
    all.delete(idle);
    return [...all].sort((one, other) => one.id - other.id);
  }

  not(node: Node): Node {
    if (node === this.never) return this.anything;
    if (node === this.anything) return this.never;
    return node.kind === 'not' ? node.parts[0]! : this.#node('not', [node], !node.empty);
  }

  repeat(node: Node, given: number, most: number): Node {
    const least = node.empty ? 0 : given;
    if (most === 0 || node === this.nothing) return this.nothing;
    if (least === 1 && most === 1) return node;
    if (node === this.never) return least === 0 ? this.nothing : node;
    return this.#node('repeat', [node], least === 0, { least, most });
  }

  /** What may follow a character of the kind. */
  behind(node: Node, kind: number): Node {
    const known = node.derivatives.get(kind);
    if (known !== undefined) return known;
    const found = this.#behind(node, kind);
    node.derivatives.set(kind, found);
    return found;
  }

  #behind(node: Node, kind: number): Node {
    const { parts, least, most } = node;
    const next = (each: Node) => this.behind(each, kind);
    if (node.kind === 'set') return (node.bits >> BigInt(kind)) & 1n ? this.nothing : this.never;
    if (node.kind === 'or') return this.or(...parts.map(next));
    if (node.kind === 'and') return this.and(...parts.map(next));
    const [first, rest] = parts;
    if (first === undefined) return this.never;
    if (node.kind === 'not') return this.not(next(first));
    if (node.kind === 'repeat')
      return this.sequence(next(first), this.repeat(first, Math.max(0, least - 1), most - 1));
    const later = this.sequence(next(first), rest!);
    return first.empty ? this.or(later, next(rest!)) : later;
  }
}

/** Whether texts of `other` have the characters that `node` demands, and as many. It finds only simple cases. */
function covers(node: Node, other: Node): boolean {
  const [first, rest] = node.kind === 'sequence' ? node.parts : [node];
  const [one] = first?.parts ?? [];
  if (first?.kind !== 'repeat' || one?.kind !== 'set' || rest?.empty === false) return false;
  const within = first.least <= other.shortest && other.longest <= first.most;
  return within && (other.has & ~one.bits) === 0n;
}

/** What follows a place of a pattern, if the place is the beginning of the text and if not. */
interface Rest {
  first: Node;
  later: Node;
}

type Part = (rest: Rest) => Rest;

class Reader {
  readonly #tokens: readonly string[];
  readonly #nodes: Nodes;
  readonly #setOf: (token: string) => Node;
  #at = 0;

  constructor(tokens: readonly string[], nodes: Nodes, setOf: (token: string) => Node) {
    this.#tokens = tokens;
    this.#nodes = nodes;
    this.#setOf = setOf;
  }

  /** Texts in which the pattern matches anywhere. */
  whole(): Node {
    const { anything } = this.#nodes;
    const { first, later } = this.#choice()({ first: anything, later: anything });
    return this.#nodes.or(first, this.#nodes.sequence(anything, later));
  }

  #choice(): Part {
    const branches: Part[] = [];
    let parts: Part[] = [];
    let begin = 0;
    const end = () => {
      const own = parts;
      branches.push((rest) => own.reduceRight((behind, part) => part(behind), rest));
      parts = [];
    };
    for (; this.#at < this.#tokens.length && this.#tokens[this.#at] !== ')'; this.#at += 1) {
      const token = this.#tokens[this.#at]!;
      if (token === '|') end();
      else if (/^(?:[*+?]|\{\d)/.test(token)) {
        const looks = this.#tokens.slice(begin, this.#at).some((each) => /^(?:[$^]|\(\?[=!])/.test(each));
        const part = parts.pop();
        if (part === undefined) throw new Error(`a grammar cannot follow "${token}" here`);
        parts.push(this.#repeated(part, token, looks));
      } else {
        begin = this.#at;
        parts.push(this.#part(token));
      }
    }
    end();
    return (rest) => this.#either(...branches.map((branch) => branch(rest)));
  }

  #either(...all: Rest[]): Rest {
    return {
      first: this.#nodes.or(...all.map(({ first }) => first)),
      later: this.#nodes.or(...all.map(({ later }) => later)),
    };
  }

  #part(token: string): Part {
    const nodes = this.#nodes;
    if (token === '^') return ({ first }) => ({ first, later: nodes.never });
    if (token === '$') {
      const last = (rest: Node) => (rest.empty ? nodes.nothing : nodes.never);
      return ({ first, later }) => ({ first: last(first), later: last(later) });
    }
    if (/^(?:\(\?<[=!]|\\[bBk1-9])/.test(token)) throw new Error(`a grammar cannot follow "${token}" here`);
    if (!token.startsWith('(')) {
      const set = this.#setOf(token);
      return ({ later }) => ({ first: nodes.sequence(set, later), later: nodes.sequence(set, later) });
    }
    this.#at += 1;
    const inner = this.#choice();
    if (token !== '(?=' && token !== '(?!') return inner;
    const { first, later } = inner({ first: nodes.anything, later: nodes.anything });
    const own = (node: Node) => (token === '(?=' ? node : nodes.not(node));
    return (rest) => ({ first: nodes.and(own(first), rest.first), later: nodes.and(own(later), rest.later) });
  }

  /** `looks` tells whether the part looks at what is around it. */
  #repeated(part: Part, token: string, looks: boolean): Part {
    const nodes = this.#nodes;
    const [, from, comma, to] = /^\{(\d+)(,?)(\d*)/.exec(token) ?? [];
    const fixed = { '*': [0, ENDLESS], '+': [1, ENDLESS], '?': [0, 1] }[token[0]!];
    const [least = 0, most = 0] = fixed ?? [Number(from), to ? Number(to) : comma ? ENDLESS : Number(from)];
    if (looks && most > MOST_UNROLLED)
      throw new Error(`a grammar cannot follow "^", "$" or "(?" within "${token}"`);
    if (looks || (least === 0 && most === 1))
      return (rest) => {
        let all = rest;
        for (let at = most - 1; at >= 0; at -= 1)
          all = at >= least ? this.#either(rest, part(all)) : part(all);
        return all;
      };
    const { nothing } = nodes;
    const one = part({ first: nothing, later: nothing }).later;
    const some = nodes.and(nodes.repeat(one, least, most), nodes.not(nothing));
    return ({ first, later }) => {
      const behind = nodes.sequence(nodes.repeat(one, least, most), later);
      if (first === later) return { first: behind, later: behind };
      const begun = nodes.sequence(some, later);
      return { first: least === 0 || one.empty ? nodes.or(first, begun) : begun, later: behind };
    };
  }
}

function statesOf(whole: Node, nodes: Nodes, kinds: readonly Ranges[], most: number): State[] {
  const places = new Map([[whole, 0]]);
  const before: number[][] = [[]];
  const states: State[] = [];
  for (const [node, at] of places) {
    const next = new Map<number, Ranges>();
    kinds.forEach((ranges, kind) => {
      const behind = nodes.behind(node, kind);
      if (behind === nodes.never) return;
      const place = places.get(behind) ?? places.size;
      places.set(behind, place);
      const incoming = before[place] ?? [];
      incoming.push(at);
      before[place] = incoming;
      next.set(place, [...(next.get(place) ?? []), ...ranges]);
    });
    if (places.size > most) throw new Error(`it takes an automaton of more than ${most} states`);
    states.push({ ends: node.empty, next: [...next].map(([state, ranges]) => ({ ranges, state })) });
  }
  // From others, no text ends.
  const alive = new Set(states.flatMap(({ ends }, at) => (ends ? [at] : [])));
  for (const at of alive) for (const each of before[at]!) alive.add(each);
  if (!alive.has(0)) throw new NoText('no text matches it');
  return states.map(({ ends, next }) => ({ ends, next: next.filter(({ state }) => alive.has(state)) }));
}
