/** Reads the expressions of a template, with the precedences of Jinja. */
import { type Token, tokensOf } from './lexer.js';
import type { Arguments, Block, Expression, FilterCall, MacroParts, Parameter, Target } from './nodes.js';
import type { Arithmetic, Comparison } from './operators.js';

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS = new Map<string, boolean | null>([
  ...(['true', 'True'] as const).map((name) => [name, true] as const),
  ...(['false', 'False'] as const).map((name) => [name, false] as const),
  ...(['none', 'None'] as const).map((name) => [name, null] as const),
]);
export const CONSTANT_NAMES: readonly string[] = [...CONSTANTS.keys()];
/** Levels of expressions within expressions. */
const MOST_DEPTH = 200;
/** Digits of a number. */
const MOST_DIGITS = 64;

export class ExpressionParser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;
  /** Names since the beginning of each macro that is open. */
  readonly #names: Set<string>[] = [];

  constructor(template: string) {
    this.#tokens = tokensOf(template);
  }

  protected get ahead(): Token {
    return this.#tokens[this.#at + 1] ?? this.#token;
  }

  protected get text(): string {
    return this.#token.text;
  }

  get #token(): Token {
    return this.#tokens[this.#at]!;
  }

  protected at(type: Token['type']): boolean {
    return this.#token.type === type;
  }

  protected is(type: Token['type'], text: string): boolean {
    return this.#token.type === type && this.#token.text === text;
  }

  protected next(): Token {
    const token = this.#token;
    if (token.type !== 'end') this.#at += 1;
    return token;
  }

  protected skip(type: Token['type'], text = this.text): boolean {
    const found = this.is(type, text);
    if (found) this.next();
    return found;
  }

  protected expect(type: Token['type'], text = this.text): Token {
    if (!this.is(type, text)) {
      const found = this.at('end') ? 'the end of the template' : `'${this.text}'`;
      throw this.fault(`expected ${text === this.text ? type : `'${text}'`}, found ${found}`);
    }
    return this.next();
  }

  protected name(): string {
    return this.expect('name').text;
  }

  protected fault(message: string): Error {
    return new SyntaxError(`${message} (line ${this.#token.line})`);
  }

  protected withNames(read: () => Block, parameters: readonly Parameter[]): MacroParts {
    const names = new Set<string>();
    this.#names.push(names);
    const body = read();
    this.#names.pop();
    return { parameters, body, names };
  }

  /** A name, several in a tuple or, if `attributes`, one such as `ns.found`. */
  protected target(attributes = false): Target {
    if (attributes && this.ahead.type === 'operator' && this.ahead.text === '.') {
      const object = this.name();
      this.next();
      return { kind: 'attribute', object, name: this.name() };
    }
    const items: Target[] = [];
    let many = false;
    while (this.at('name') || this.is('operator', '(')) {
      if (this.skip('operator', '(')) {
        items.push(this.target());
        this.expect('operator', ')');
      } else items.push({ kind: 'name', name: this.name() });
      if (!this.skip('operator', ',')) break;
      many = true;
    }
    if (items.length === 0) throw this.fault(`can't assign to '${this.text}'`);
    const first = items[0]!;
    if (!many && first.kind === 'name' && CONSTANTS.has(first.name))
      throw this.fault(`can't assign to '${first.name}'`);
    return many ? { kind: 'tuple', items } : first;
  }

  /** An expression, or a tuple without parentheses, which ends before a name of `ends`. */
  protected tuple(conditions = true, ends: readonly string[] = [], parentheses = false): Expression {
    const items: Expression[] = [];
    let many = false;
    for (;;) {
      const ended = this.at('block') || this.at('print') || this.is('operator', ')');
      if (ended || (this.at('name') && ends.includes(this.text))) break;
      items.push(this.expression(conditions));
      if (!this.skip('operator', ',')) break;
      many = true;
    }
    if (!many && items.length === 1) return items[0]!;
    if (items.length === 0 && !parentheses) throw this.fault(`Expected an expression, got '${this.text}'`);
    return { kind: 'tuple', items };
  }

  protected expression(conditions = true): Expression {
    this.#depth += 1;
    if (this.#depth > MOST_DEPTH) throw this.fault(`expressions are nested deeper than ${MOST_DEPTH} levels`);
    const expression = conditions ? this.#condition() : this.#or();
    this.#depth -= 1;
    return expression;
  }

  #condition(): Expression {
    let expression = this.#or();
    while (this.skip('name', 'if')) {
      const test = this.#or();
      const otherwise = this.skip('name', 'else') ? this.expression() : undefined;
      expression = { kind: 'condition', test, value: expression, otherwise };
    }
    return expression;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.skip('name', 'or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.skip('name', 'and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    if (!this.skip('name', 'not')) return this.#compare();
    this.#depth += 1;
    if (this.#depth > MOST_DEPTH) throw this.fault(`expressions are nested deeper than ${MOST_DEPTH} levels`);
    const operand = this.#not();
    this.#depth -= 1;
    return { kind: 'not', operand };
  }

  #compare(): Expression {
    const first = this.#sum();
    const rest: { operator: Comparison; operand: Expression }[] = [];
    for (let operator = this.#comparison(); operator !== undefined; operator = this.#comparison())
      rest.push({ operator, operand: this.#sum() });
    return rest.length === 0 ? first : { kind: 'compare', first, rest };
  }

  #comparison(): Comparison | undefined {
    if (this.at('operator') && COMPARISONS.has(this.text)) return this.next().text as Comparison;
    if (this.skip('name', 'in')) return 'in';
    if (!this.is('name', 'not') || this.ahead.type !== 'name' || this.ahead.text !== 'in') return undefined;
    this.next();
    this.next();
    return 'not in';
  }

  #sum(): Expression {
    return this.#arithmetic(['+', '-'], () => this.#concat());
  }

  #concat(): Expression {
    const parts = [this.#product()];
    while (this.skip('operator', '~')) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : { kind: 'concat', parts };
  }

  #product(): Expression {
    return this.#arithmetic(['*', '/', '//', '%'], () => this.#power());
  }

  #power(): Expression {
    return this.#arithmetic(['**'], () => this.#unary());
  }

  #arithmetic(operators: readonly Arithmetic[], operand: () => Expression): Expression {
    let left = operand();
    while (this.at('operator') && (operators as readonly string[]).includes(this.text)) {
      const operator = this.next().text as Arithmetic;
      left = { kind: 'arithmetic', operator, left, right: operand() };
    }
    return left;
  }

  #unary(filters = true): Expression {
    let expression: Expression;
    if (this.is('operator', '-') || this.is('operator', '+')) {
      const sign = this.next().text as '+' | '-';
      this.#depth += 1;
      if (this.#depth > MOST_DEPTH)
        throw this.fault(`expressions are nested deeper than ${MOST_DEPTH} levels`);
      expression = { kind: 'sign', sign, operand: this.#unary(false) };
      this.#depth -= 1;
    } else expression = this.#primary();
    expression = this.#postfix(expression);
    return filters ? this.#filtersAndTests(expression) : expression;
  }

  #primary(): Expression {
    const token = this.#token;
    if (token.type === 'name') {
      this.next();
      const constant = CONSTANTS.get(token.text);
      if (constant !== undefined) return { kind: 'constant', value: constant };
      for (const names of this.#names) names.add(token.text);
      return { kind: 'name', name: token.text };
    }
    if (token.type === 'string') {
      let value = '';
      while (this.at('string')) value += this.next().text;
      return { kind: 'constant', value };
    }
    if (token.type === 'int' || token.type === 'float') return { kind: 'constant', value: this.#number() };
    if (this.skip('operator', '(')) {
      const inner = this.tuple(true, [], true);
      this.expect('operator', ')');
      return inner;
    }
    if (this.skip('operator', '[')) return { kind: 'list', items: this.#items(']', () => this.expression()) };
    if (this.skip('operator', '{')) return { kind: 'dict', entries: this.#items('}', () => this.#entry()) };
    throw this.fault(`unexpected '${token.text}'`);
  }

  #number(): bigint | number {
    const { type, text } = this.next();
    if (text.length > MOST_DIGITS) throw this.fault(`a number has more than ${MOST_DIGITS} digits`);
    const digits = text.replaceAll('_', '');
    return type === 'int' ? BigInt(digits) : Number(digits);
  }

  #items<T>(close: string, read: () => T): T[] {
    const items: T[] = [];
    while (!this.is('operator', close)) {
      if (items.length > 0) this.expect('operator', ',');
      if (this.is('operator', close)) break;
      items.push(read());
    }
    this.expect('operator', close);
    return items;
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.expect('operator', ':');
    return [key, this.expression()];
  }

  #postfix(operand: Expression): Expression {
    let expression = operand;
    for (;;) {
      if (this.skip('operator', '.')) expression = this.#attribute(expression);
      else if (this.skip('operator', '[')) expression = this.#subscript(expression);
      else if (this.is('operator', '(')) expression = this.#call(expression);
      else return expression;
    }
  }

  #call(callee: Expression): Expression {
    return { kind: 'call', callee, args: this.#arguments() };
  }

  #attribute(object: Expression): Expression {
    if (this.at('int')) return { kind: 'item', object, key: { kind: 'constant', value: this.#number() } };
    return { kind: 'attribute', object, name: this.name() };
  }

  #subscript(object: Expression): Expression {
    const keys: (Expression | (Expression | undefined)[])[] = this.#items(']', () => this.#subscribed());
    const [first] = keys;
    if (keys.length === 1 && Array.isArray(first)) return { kind: 'slice', object, parts: first };
    if (keys.some(Array.isArray)) throw this.fault('several slices in one subscript');
    const items = keys as Expression[];
    return { kind: 'item', object, key: items.length === 1 ? items[0]! : { kind: 'tuple', items } };
  }

  /** A key, or the three parts of a slice. */
  #subscribed(): Expression | (Expression | undefined)[] {
    const start = this.is('operator', ':') ? undefined : this.expression();
    if (!this.skip('operator', ':')) return start!;
    const part = () => {
      const absent = this.is('operator', ':') || this.is('operator', ']') || this.is('operator', ',');
      return absent ? undefined : this.expression();
    };
    const stop = part();
    return [start, stop, this.skip('operator', ':') ? part() : undefined];
  }

  #filtersAndTests(operand: Expression): Expression {
    let expression = operand;
    for (;;) {
      if (this.skip('operator', '|'))
        expression = { kind: 'filter', operand: expression, filter: this.filterCall() };
      else if (this.skip('name', 'is')) expression = this.#test(expression);
      // A filter's result may be called.
      else if (this.is('operator', '(')) expression = this.#call(expression);
      else return expression;
    }
  }

  protected filterCall(): FilterCall {
    const name = this.#dotted();
    return { name, args: this.is('operator', '(') ? this.#arguments() : NO_ARGUMENTS };
  }

  #test(operand: Expression): Expression {
    const negated = this.skip('name', 'not');
    const name = this.#dotted();
    let args = NO_ARGUMENTS;
    if (this.is('operator', '(')) args = this.#arguments();
    else if (this.#startsArgument()) {
      if (this.is('name', 'is')) throw this.fault('You cannot chain multiple tests with is');
      args = { ...NO_ARGUMENTS, positional: [this.#postfix(this.#primary())] };
    }
    const test: Expression = { kind: 'test', operand, name, args };
    return negated ? { kind: 'not', operand: test } : test;
  }

  #startsArgument(): boolean {
    if (this.at('name')) return !['else', 'or', 'and'].includes(this.text);
    return (
      this.at('string') ||
      this.at('int') ||
      this.at('float') ||
      this.is('operator', '[') ||
      this.is('operator', '{')
    );
  }

  #dotted(): string {
    let name = this.name();
    while (this.skip('operator', '.')) name += `.${this.name()}`;
    return name;
  }

  #arguments(): Arguments {
    const positional: Expression[] = [];
    const named: (readonly [string, Expression])[] = [];
    let list: Expression | undefined;
    let dict: Expression | undefined;
    this.expect('operator', '(');
    this.#items(')', () => {
      const { text } = this;
      if (dict === undefined && this.skip('operator', '**')) dict = this.expression();
      else if (list === undefined && dict === undefined && this.skip('operator', '*'))
        list = this.expression();
      else if (this.at('name') && this.ahead.type === 'operator' && this.ahead.text === '=') {
        this.next();
        this.next();
        named.push([text, this.expression()]);
      } else if (list ?? dict ?? named[0]) throw this.fault('invalid syntax for function call expression');
      else positional.push(this.expression());
    });
    return { positional, named, list, dict };
  }
}

const NO_ARGUMENTS: Arguments = { positional: [], named: [], list: undefined, dict: undefined };
