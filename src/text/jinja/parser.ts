/** Reads the statements of a template. */
import { ExpressionParser } from './expression-parser.js';
import type { Block, Expression, FilterCall, MacroParts, Parameter, Statement, Target } from './nodes.js';

/** Throws an Error that names the line. */
export function parse(template: string): Block {
  return new Parser(template).template();
}

type Ends = readonly string[];

class Parser extends ExpressionParser {
  template(): Block {
    const body = this.#block([]);
    if (!this.at('end')) throw this.fault(`unexpected '${this.text}'`);
    return body;
  }

  /** Statements up to a tag that `ends` names, which stays. */
  #block(ends: Ends): Block {
    const statements: Statement[] = [];
    for (;;) {
      if (this.at('text')) statements.push({ kind: 'text', text: this.next().text });
      else if (this.at('print')) {
        this.next();
        statements.push({ kind: 'print', value: this.tuple() });
        this.expect('print');
      } else if (this.at('block')) {
        if (this.ahead.type === 'name' && ends.includes(this.ahead.text)) return statements;
        this.next();
        statements.push(...this.#statement());
      } else {
        if (ends.length > 0)
          throw this.fault(`unexpected end of template, expected '${ends.join("' or '")}'`);
        return statements;
      }
    }
  }

  /** A body whose opening tag ends here, up to a tag that `ends` names. Reads that tag's name. */
  #body(...ends: Ends): { body: Block; end: string } {
    this.expect('block');
    const body = this.#block(ends);
    this.expect('block');
    return { body, end: this.next().text };
  }

  #statement(): Statement[] {
    const name = this.at('name') ? this.next().text : '';
    const found = this.#tag(name);
    this.expect('block');
    return found;
  }

  /** A statement behind its name, up to its last tag's end. */
  #tag(name: string): Statement[] {
    switch (name) {
      case 'if':
        return [this.#if()];
      case 'for':
        return [this.#for()];
      case 'set':
        return [this.#set()];
      case 'macro': {
        const macro = this.name();
        return [{ kind: 'macro', name: macro, parts: this.#macroParts('endmacro') }];
      }
      case 'call':
        return [this.#call()];
      case 'filter': {
        const filters = this.#filters();
        return [{ kind: 'filterBlock', filters, body: this.#body('endfilter').body }];
      }
      case 'with':
        return [this.#with()];
      case 'generation':
        return [{ kind: 'with', bindings: [], body: this.#body('endgeneration').body }];
      case 'block':
        return [this.#named()];
      case 'autoescape':
        this.expression();
        return [{ kind: 'with', bindings: [], body: this.#body('endautoescape').body }];
      case 'break':
      case 'continue':
        return [{ kind: name }];
    }
    throw this.fault(name === '' ? `unexpected '${this.text}'` : `Encountered unknown tag '${name}'.`);
  }

  #if(): Statement {
    const branches: { test: Expression; body: Block }[] = [];
    for (let end = 'elif'; ; ) {
      if (end === 'endif') return { kind: 'if', branches, otherwise: [] };
      if (end === 'else') return { kind: 'if', branches, otherwise: this.#body('endif').body };
      const test = this.tuple(false);
      const part = this.#body('elif', 'else', 'endif');
      branches.push({ test, body: part.body });
      end = part.end;
    }
  }

  #for(): Statement {
    const target = this.target();
    this.expect('name', 'in');
    const iterable = this.tuple(false, ['recursive']);
    const test = this.skip('name', 'if') ? this.expression() : undefined;
    const recursive = this.skip('name', 'recursive');
    const { body, end } = this.#body('else', 'endfor');
    const otherwise = end === 'else' ? this.#body('endfor').body : [];
    return { kind: 'for', target, iterable, test, recursive, body, otherwise };
  }

  #set(): Statement {
    const target = this.target(true);
    if (this.skip('operator', '=')) return { kind: 'set', target, value: this.tuple() };
    const filters = this.is('operator', '|') ? this.#filters(true) : [];
    return { kind: 'setBlock', target, filters, body: this.#body('endset').body };
  }

  #call(): Statement {
    const parameters = this.is('operator', '(') ? this.#parameters() : [];
    const call = this.expression();
    if (call.kind !== 'call') throw this.fault('expected call');
    return { kind: 'callBlock', call, parts: this.#macroParts('endcall', parameters) };
  }

  #with(): Statement {
    const bindings: { target: Target; value: Expression }[] = [];
    while (!this.at('block')) {
      if (bindings.length > 0) this.expect('operator', ',');
      const target = this.target();
      this.expect('operator', '=');
      bindings.push({ target, value: this.expression() });
    }
    return { kind: 'with', bindings, body: this.#body('endwith').body };
  }

  #named(): Statement {
    this.name();
    while (this.skip('name', 'scoped') || this.skip('name', 'required'));
    const { body } = this.#body('endblock');
    this.skip('name');
    return { kind: 'with', bindings: [], body };
  }

  #macroParts(end: string, given?: readonly Parameter[]): MacroParts {
    const parameters = given ?? this.#parameters();
    return this.withNames(() => this.#body(end).body, parameters);
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect('operator', '(');
    while (!this.is('operator', ')')) {
      if (parameters.length > 0) this.expect('operator', ',');
      const name = this.name();
      const usual = this.skip('operator', '=') ? this.expression() : undefined;
      if (usual === undefined && parameters.at(-1)?.usual !== undefined)
        throw this.fault('non-default argument follows default argument');
      parameters.push({ name, usual });
    }
    this.expect('operator', ')');
    return parameters;
  }

  /** One filter or several, the first without its `|`. */
  #filters(piped = false): FilterCall[] {
    const filters: FilterCall[] = piped ? [] : [this.filterCall()];
    while (this.skip('operator', '|')) filters.push(this.filterCall());
    return filters;
  }
}
