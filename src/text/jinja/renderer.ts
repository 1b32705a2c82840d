/** Runs the statements of a template. */
import { Evaluator } from './evaluator.js';
import { changes, loopAttributes } from './globals.js';
import type { Block, MacroParts, Statement, Target } from './nodes.js';
import { isEqual } from './operators.js';
import { textOf } from './print.js';
import type { Scope } from './scope.js';
import {
  Attributes,
  Dict,
  isTrue,
  iterate,
  type Named,
  orUndefined,
  tuple,
  Undefined,
  type Value,
} from './values.js';

/** How a block ended before its last statement. */
type Leaves = 'break' | 'continue' | undefined;
type For = Statement & { kind: 'for' };

export class Renderer extends Evaluator {
  #text = '';

  render(body: Block, scope: Scope): string {
    return this.#captured(body, scope);
  }

  /** The text of a block, which is not written. */
  #captured(body: Block, scope: Scope): string {
    const before = this.#text;
    this.#text = '';
    this.#run(body, scope);
    const text = this.#text;
    this.#text = before;
    return text;
  }

  #write(text: string): void {
    this.budget.work(text.length);
    this.budget.fits(this.#text.length + text.length);
    this.#text += text;
  }

  #run(body: Block, scope: Scope): Leaves {
    for (const statement of body) {
      const leaves = this.#statement(statement, scope);
      if (leaves !== undefined) return leaves;
    }
    return undefined;
  }

  #statement(node: Statement, scope: Scope): Leaves {
    this.budget.step();
    switch (node.kind) {
      case 'text':
        this.#write(node.text);
        return undefined;
      case 'print':
        this.#write(textOf(this.evaluate(node.value, scope), this.budget));
        return undefined;
      case 'if': {
        const branch = node.branches.find(({ test }) => isTrue(this.evaluate(test, scope)));
        return this.#run(branch?.body ?? node.otherwise, scope);
      }
      case 'for':
        this.#for(node, this.evaluate(node.iterable, scope), scope, 0);
        return undefined;
      case 'set':
        this.#assign(node.target, this.evaluate(node.value, scope), scope);
        return undefined;
      case 'setBlock':
        this.#assign(node.target, this.#filteredText(node, scope), scope);
        return undefined;
      case 'macro':
        scope.set(node.name, this.#macro(node.name, node.parts, scope));
        return undefined;
      case 'callBlock': {
        const caller = this.#macro('caller', node.parts, scope);
        const { args, named } = this.arguments(node.call.args, scope);
        const macro = this.evaluate(node.call.callee, scope);
        this.#write(textOf(this.called(macro, args, named.set('caller', caller)), this.budget));
        return undefined;
      }
      case 'filterBlock':
        this.#write(textOf(this.#filteredText(node, scope), this.budget));
        return undefined;
      case 'with': {
        const inner = scope.inner();
        for (const { target, value } of node.bindings)
          this.#assign(target, this.evaluate(value, scope), inner);
        return this.#run(node.body, inner);
      }
      case 'break':
      case 'continue':
        return node.kind;
    }
  }

  #filteredText({ body, filters }: Statement & { kind: 'setBlock' | 'filterBlock' }, scope: Scope): Value {
    const text = this.#captured(body, scope.inner());
    return filters.reduce<Value>((value, filter) => this.filter(value, filter, scope), text);
  }

  #for(node: For, iterable: Value, scope: Scope, depth: number): void {
    const items = this.#looped(node, iterable, scope);
    const changed = changes((a, b) => isEqual(a, b, this.budget));
    const again = (args: Value[]) => this.#again(node, args, scope, depth + 1);
    // Jinja runs `else` also where each item's body was left by `break` or `continue`.
    let completed = false;
    for (const [at, item] of items.entries()) {
      const inner = scope.inner();
      this.#assign(node.target, item, inner);
      inner.set('loop', loopAttributes(items, at, depth, changed, node.recursive ? again : undefined));
      const leaves = this.#run(node.body, inner);
      if (leaves === 'break') break;
      if (leaves === undefined) completed = true;
    }
    if (!completed) this.#run(node.otherwise, scope.inner());
  }

  /** The items that the loop's condition lets through. */
  #looped({ target, test }: For, iterable: Value, scope: Scope): readonly Value[] {
    const items = iterate(iterable, this.budget);
    if (test === undefined) return items;
    return items.filter((item) => {
      const inner = scope.inner();
      this.#assign(target, item, inner);
      return isTrue(this.evaluate(test, inner));
    });
  }

  /** What `loop(items)` in a recursive loop gives. */
  #again(node: For, [items]: readonly Value[], scope: Scope, depth: number): string {
    const before = this.#text;
    this.#text = '';
    this.#for(
      node,
      orUndefined(items, () => 'loop() expects items'),
      scope,
      depth,
    );
    const text = this.#text;
    this.#text = before;
    return text;
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.kind === 'name') scope.set(target.name, value);
    else if (target.kind === 'attribute') {
      const object = scope.get(target.object);
      if (!(object instanceof Attributes) || object.name !== 'Namespace')
        throw new TypeError('cannot assign attribute on non-namespace object');
      object.values.set(target.name, value);
    } else {
      const items = iterate(value, this.budget);
      if (items.length !== target.items.length)
        throw new TypeError(`expected ${target.items.length} values to unpack, got ${items.length}`);
      for (const [at, each] of target.items.entries()) this.#assign(each, items[at]!, scope);
    }
  }

  #macro(name: string, parts: MacroParts, scope: Scope): Attributes {
    const { parameters, names } = parts;
    const call = (args: Value[], named: Named): string => {
      const inner = scope.inner();
      const rest = new Map(named);
      if (names.has('caller'))
        inner.set(
          'caller',
          orUndefined(rest.get('caller'), () => 'No caller defined'),
        );
      if (names.has('caller')) rest.delete('caller');
      for (const [at, parameter] of parameters.entries()) {
        const given = at < args.length ? args[at] : rest.get(parameter.name);
        if (at >= args.length) rest.delete(parameter.name);
        inner.set(parameter.name, given === undefined ? this.#usual(parameter, inner) : given);
      }
      if (names.has('kwargs')) inner.set('kwargs', new Dict(rest));
      else if (rest.size > 0)
        throw new TypeError(`macro '${name}' takes no keyword argument '${[...rest.keys()][0]}'`);
      if (names.has('varargs')) inner.set('varargs', tuple(...args.slice(parameters.length)));
      else if (args.length > parameters.length)
        throw new TypeError(`macro '${name}' takes not more than ${parameters.length} argument(s)`);
      return this.#captured(parts.body, inner);
    };
    const attributes: [string, Value][] = [
      ['name', name],
      ['arguments', tuple(...parameters.map((parameter) => parameter.name))],
      ['catch_kwargs', names.has('kwargs')],
      ['catch_varargs', names.has('varargs')],
      ['caller', names.has('caller')],
    ];
    return new Attributes('Macro', attributes, call);
  }

  #usual({ name, usual }: MacroParts['parameters'][number], scope: Scope): Value {
    return usual === undefined
      ? new Undefined(`parameter '${name}' was not provided`)
      : this.evaluate(usual, scope);
  }
}
