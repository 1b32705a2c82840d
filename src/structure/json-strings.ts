/**
 * Texts of JSON that a pattern or a length binds, as EBNF: the library's own rules let quotation marks, line ends and
 * control characters into a text.
 */

/** Most characters of the rules of a grammar. A schema can ask for much more text than it has itself. */
const MOST_TEXT = 16 << 20;

/** Rules behind those of the library. */
export class Rules {
  readonly letters: Letters;
  readonly #names = new Map<string, string>();
  /** Of characters and classes, by how patterns write them. */
  readonly characters = new Map<string, string>();
  #length = 0;

  constructor(letters: Letters = JSON_LETTERS) {
    this.letters = letters;
  }

  /** The name of the rule with this body. */
  add(body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    this.#length += body.length;
    if (this.#length > MOST_TEXT) throw new Error(`its grammar has more than ${MOST_TEXT} characters`);
    const name = `own_${this.#names.size}`;
    this.#names.set(body, name);
    return name;
  }

  get text(): string {
    return [...this.#names].map(([body, name]) => `${name} ::= ${body}\n`).join('');
  }
}

export const MARK = '"\\u0022"';
/** Halves of characters are none. */
export const ESCAPE =
  '[\\u0022\\u005c/bfnrt] | "u" ([0-9A-CEFa-cef] [0-9A-Fa-f]{3} | [Dd] [0-7] [0-9A-Fa-f]{2})';
const ASCII = '[\\u0020\\u0021\\u0023-\\u005b\\u005d-\\u007f]';
const ANY = '(basic_plain | "\\u005c" basic_escape)';

/** Rules that stand for those of the library or beside them. Its characters are not always those of UTF-8. */
export const STRING_RULES = {
  basic_escape: ESCAPE,
  basic_plain: [ASCII, ...utf8(0x80, 0xd7ff), ...utf8(0xe000, 0x10ffff)].join(' | '),
  basic_string_sub: `${MARK} | basic_plain basic_string_sub | "\\u005c" basic_escape basic_string_sub`,
  /** The rest of a text of ASCII without escapes. */
  basic_other: `${MARK} | ${ASCII} basic_other`,
};

/** How a text is written: in JSON, or without quotation marks and escapes. */
interface Letters {
  /** Before and after the text. */
  mark: string;
  /** Any character, and the rest of a text. */
  any: string;
  rest: string;
  /** Characters of ASCII that stand for themselves. */
  plain: RegExp;
  escaped: RegExp;
  where: string;
}

const JSON_LETTERS: Letters = {
  mark: MARK,
  any: ANY,
  rest: 'basic_string_sub',
  plain: /[ !#-[\]-\x7f]/,
  escaped: /[\b\t\n\f\r"\\]/,
  where: 'of JSON',
};

/** Texts between tags have no "<", with which a tag begins. */
export const BARE_LETTERS: Letters = {
  mark: '""',
  any: 'bare_plain',
  rest: 'bare_rest',
  plain: /[\t\n -;=-~]/,
  escaped: /(?!)/,
  where: 'between tags',
};

export const BARE_RULES = {
  bare_plain: [
    '[\\u0009\\u000a\\u0020-\\u003b\\u003d-\\u007e]',
    ...utf8(0x80, 0xd7ff),
    ...utf8(0xe000, 0x10ffff),
  ].join(' | '),
  bare_rest: '"" | bare_plain bare_rest',
};

/** A text of a length: a rule for each character, which is what xgrammar follows fastest. */
export function textOfLength(least: number, most: number | undefined, rules: Rules): string {
  const { mark, rest: unbound } = rules.letters;
  const next = (rest: string) =>
    rules.letters === BARE_LETTERS
      ? `bare_plain ${rest}`
      : `basic_plain ${rest} | "\\u005c" basic_escape ${rest}`;
  let rest = most === undefined ? unbound : rules.add(mark);
  for (let at = (most ?? least) - 1; at >= 0; at -= 1)
    rest = rules.add(`${at >= least ? `${mark} | ` : ''}${next(rest)}`);
  return `${mark} ${rest}`;
}

const MOST_PATTERN = 2_000;
const TOKENS =
  /\\u\{\w+\}|\\u\w{4}|\\x\w\w|\\c\w|\\p\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<\w+>|:|<?[=!]))?|(?:[*+?]|\{\d+(?:,\d*)?\})\??|./gisu;

/** A text that matches, anywhere where the pattern has no anchors. Throws an Error with the reason if none can. */
export function textOfPattern(pattern: string, rules: Rules): string {
  if (pattern.length > MOST_PATTERN)
    throw new Error(`it has ${pattern.length} characters; the limit is ${MOST_PATTERN}`);
  // JavaScript's own parser finds what is no expression at all.
  new RegExp(pattern, 'u');
  const branches: string[] = [];
  let [body, depth, begins, ends] = ['', 0, false, false];
  const { any, mark } = rules.letters;
  const endBranch = () => {
    branches.push(`${begins ? '' : `${any}*`}${body}${ends ? '' : ` ${any}*`}`);
    [body, begins, ends] = ['', false, false];
  };
  for (const [token] of pattern.matchAll(TOKENS)) {
    const outside = depth === 0;
    if (token === '|' && outside) endBranch();
    else if (token === '^' && outside && body === '') begins = true;
    else if (token === '$' && outside) ends = true;
    else if (ends || /^(?:[$^]|\(.*[=!]|\\[bk1-9]|\{.*\d{4}.*)$/is.test(token))
      throw new Error(`a grammar cannot follow "${token}" here`);
    else if (/^[*+?{]/.test(token)) body += token.length > 1 ? token.replace(/\?$/, '') : token;
    else if (/^[(|)]/.test(token)) {
      depth += { '(': 1, ')': -1 }[token[0]!] ?? 0;
      body += ` ${token[0]}`;
    } else {
      const known = rules.characters.get(token) ?? characterRule(token, rules);
      rules.characters.set(token, known);
      body += ` ${known}`;
    }
  }
  endBranch();
  const whole = branches.join(' | ').replace(/(^|[(|])(?=\s*(?:[|)]|$))/g, '$1 "" ');
  return `${mark} (${whole}) ${mark}`;
}

/** One character or class of a pattern. */
function characterRule(token: string, rules: Rules): string {
  const { letters } = rules;
  if (/^(?:[^.\\[]|\\[^a-z0-9])$/isu.test(token)) {
    const character = token.replace(/^\\/, '');
    if (letters === JSON_LETTERS) return jsonCharacter(character);
    if (character > '~' || letters.plain.test(character)) return literal(character);
  }
  const expression = new RegExp(`^${token}$`, 'u');
  const has = (code: number) => expression.test(String.fromCodePoint(code));
  const ascii = Array.from({ length: 0x80 }, (_, code) => code).filter(has);
  const plain = ascii.filter((code) => letters.plain.test(String.fromCharCode(code)));
  const parts = ascii
    .map((code) => String.fromCharCode(code))
    .filter((character) => letters.escaped.test(character))
    .map(jsonCharacter);
  if (plain.length > 0) parts.push(`[${plain.map(escaped).join('')}]`);
  // Characters beyond 16 bits match all or none where the class names none of them.
  const last = /\\[pu]\{|[\u{10000}-\u{10ffff}]/iu.test(token) ? 0x10ffff : 0xffff;
  let from = 0x80;
  for (let code = from; code <= last + 1; code += 1) {
    const whole = code === 0x10000 && last === 0xffff && has(code);
    if (code <= last && (code & 0xf800) !== 0xd800 && has(code)) continue;
    parts.push(...utf8(from, whole ? 0x10ffff : code - 1));
    from = code + 1;
  }
  if (parts.length === 0) throw new Error(`no text ${letters.where} has a character of "${token}"`);
  return rules.add(parts.join(' | '));
}

/** Characters in bytes of UTF-8, for which xgrammar takes the members of a class. */
function utf8(from: number, to: number): string[] {
  const parts: string[] = [];
  for (let code = from; code <= to; ) {
    const bytes = [...Buffer.from(String.fromCodePoint(code))];
    const end = Math.min(to, [0, 0, 0x7ff, 0xffff, 0x10ffff][bytes.length]!);
    // The last bytes may have all values.
    let at = bytes.length - 1;
    let size = 1;
    for (; at > 0 && code % (64 * size) === 0 && code + 64 * size - 1 <= end; at -= 1) size *= 64;
    let next = code + size;
    while (next % (64 * size) !== 0 && next + size - 1 <= end) next += size;
    const last = bytes[at]! + (next - code) / size - 1;
    const spans = bytes.map((byte, index) =>
      index < at ? [byte, byte] : index > at ? [0x80, 0xbf] : [byte, last],
    );
    // The library takes a class of one member for a character.
    parts.push(
      spans.map(([low, high]) => `[${escaped(low!)}${low === high ? '' : '-'}${escaped(high!)}]`).join(' '),
    );
    code = next;
  }
  return parts;
}

function jsonCharacter(character: string): string {
  return literal(JSON.stringify(character).slice(1, -1));
}

export function literal(text: string): string {
  return `"${escapedText(text)}"`;
}

export function escapedText(text: string): string {
  return Array.from(text, (character) => escaped(character.codePointAt(0)!)).join('');
}

/** Letters and digits stand for themselves. Other characters are numbers, whose digits are always four or eight. */
function escaped(code: number): string {
  const character = String.fromCodePoint(code);
  if (/[A-Za-z0-9 _.,:]/.test(character)) return character;
  const digits = code.toString(16);
  return code <= 0xffff ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}

/** A name as the library puts it into its EBNF: it writes names as they are. */
export function nameText(name: unknown): string {
  return escapedText(JSON.stringify(name).slice(1, -1));
}

/** A value as the grammars write it: on one line, with ", " and ": " between its parts. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}
