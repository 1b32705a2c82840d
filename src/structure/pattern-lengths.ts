/** Patterns that also bind the length of a text, as a schema with "minLength" and "maxLength" asks. */

const TOKENS =
  /\\u\{\w+\}|\\u\w{4}|\\x\w\w|\\c\w|\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<\w+>|:|<?[=!]))?|(?:[*+?]|\{\d+(?:,\d*)?\})\??|./gsu;

/** How many characters a text may have. */
interface Lengths {
  least: number;
  most: number;
}

/** One character or class, or a group, with how often it stands there. */
interface Part {
  text: string;
  one: Lengths;
  times: Lengths;
  group: boolean;
}

/**
 * A pattern whose texts match the given one and have a length within the bounds; undefined where that takes more than
 * a pattern, or more than is done here: a part that repeats, among others of a fixed length.
 */
export function patternWithin(pattern: string, { least, most }: Lengths): string | undefined {
  const reader = new Reader([...pattern.matchAll(TOKENS)].map(([token]) => token));
  const branches = reader.branches();
  const own = lengthsOf(branches);
  if (least <= own.least && own.most <= most) return pattern;
  const [parts] = branches;
  if (branches.length !== 1 || parts === undefined || !pattern.startsWith('^') || !pattern.endsWith('$'))
    return undefined;
  const varied = parts.filter(({ one, times }) => times.least !== times.most || one.least !== one.most);
  const [part] = varied;
  if (varied.length !== 1 || part === undefined || part.group) return undefined;
  const fixed = parts.reduce((sum, each) => sum + (each === part ? 0 : each.one.least * each.times.least), 0);
  const from = Math.max(part.times.least, least - fixed);
  const to = Math.min(part.times.most, most - fixed);
  if (from > to) throw new Error(`no text that it allows has from ${least} to ${most} characters`);
  const times = `{${from},${to === Number.POSITIVE_INFINITY ? '' : to}}`;
  return `^${parts.map((each) => (each === part ? each.text + times : each.text + timesText(each.times))).join('')}$`;
}

function timesText({ least, most }: Lengths): string {
  return least === 1 && most === 1 ? '' : `{${least},${most === Number.POSITIVE_INFINITY ? '' : most}}`;
}

function lengthsOf(branches: readonly (readonly Part[])[]): Lengths {
  const all = branches.map((parts) => ({
    least: parts.reduce((sum, { one, times }) => sum + one.least * times.least, 0),
    most: parts.reduce((sum, { one, times }) => sum + (one.most === 0 ? 0 : one.most * times.most), 0),
  }));
  return {
    least: Math.min(...all.map((each) => each.least)),
    most: Math.max(...all.map((each) => each.most)),
  };
}

const ANYTHING: Part = {
  text: '',
  one: { least: 1, most: 1 },
  times: { least: 0, most: Number.POSITIVE_INFINITY },
  group: true,
};

class Reader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  /** Of a whole pattern, whose branches may begin and end anywhere without anchors. */
  branches(outside = true): Part[][] {
    const branches: Part[][] = [];
    let [parts, begins, ends]: [Part[], boolean, boolean] = [[], !outside, !outside];
    const end = () => {
      branches.push([...(begins ? [] : [ANYTHING]), ...parts, ...(ends ? [] : [ANYTHING])]);
      [parts, begins, ends] = [[], !outside, !outside];
    };
    for (; this.#at < this.#tokens.length; this.#at += 1) {
      const token = this.#tokens[this.#at]!;
      if (token === ')') break;
      if (token === '|') end();
      else if (token === '^') begins = true;
      else if (token === '$') ends = true;
      else if (/^(?:[*+?]|\{\d)/.test(token)) this.#repeat(parts.at(-1), token);
      else parts.push(this.#part(token));
    }
    end();
    return branches;
  }

  #part(token: string): Part {
    const times = { least: 1, most: 1 };
    if (!token.startsWith('(')) return { text: token, one: { least: 1, most: 1 }, times, group: false };
    const from = this.#at;
    this.#at += 1;
    const one = lengthsOf(this.branches(false));
    return { text: this.#tokens.slice(from, this.#at + 1).join(''), one, times, group: true };
  }

  #repeat(part: Part | undefined, token: string): void {
    if (part === undefined) return;
    const [, from, comma, to] = /^\{(\d+)(,?)(\d*)/.exec(token) ?? [];
    const endless = Number.POSITIVE_INFINITY;
    const fixed = { '*': [0, endless], '+': [1, endless], '?': [0, 1] }[token[0]!];
    const [least, most] = fixed ?? [Number(from), to ? Number(to) : comma ? endless : Number(from)];
    part.times = { least: least!, most: most! };
  }
}
