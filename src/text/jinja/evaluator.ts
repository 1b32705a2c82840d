/** Evaluates expressions. */
import { attributeOf, itemOf, sliceOf } from './access.js';
import type { Budget } from './budget.js';
import { filtered } from './filters.js';
import type { Arguments, Expression, FilterCall } from './nodes.js';
import { arithmetic, compared, signed } from './operators.js';
import { textOf } from './print.js';
import type { Scope } from './scope.js';
import { tested } from './tests.js';
import { escaped } from './text-filters.js';
import { joined } from './text-methods.js';
import {
  Attributes,
  Callable,
  Dict,
  isTrue,
  iterate,
  type Named,
  orUndefined,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

export class Evaluator {
  protected readonly budget: Budget;

  constructor(budget: Budget) {
    this.budget = budget;
  }

  protected evaluate(node: Expression, scope: Scope): Value {
    this.budget.step();
    const of = (each: Expression) => this.evaluate(each, scope);
    switch (node.kind) {
      case 'constant':
        return node.value;
      case 'name':
        return orUndefined(scope.get(node.name), () => `'${node.name}' is undefined`);
      case 'list':
        return node.items.map(of);
      case 'tuple':
        return tuple(...node.items.map(of));
      case 'dict':
        return new Dict(node.entries.map(([key, value]) => [of(key), of(value)]));
      case 'attribute':
        return attributeOf(of(node.object), node.name, this.budget);
      case 'item':
        return itemOf(of(node.object), of(node.key), this.budget);
      case 'slice':
        return sliceOf(
          of(node.object),
          node.parts.map((part) => (part === undefined ? null : of(part))),
          this.budget,
        );
      case 'call':
        return this.#call(node.callee, node.args, scope);
      case 'filter':
        return this.filter(of(node.operand), node.filter, scope);
      case 'test': {
        const value = of(node.operand);
        return tested(node.name, value, this.arguments(node.args, scope).args, this.budget);
      }
      case 'not':
        return !isTrue(of(node.operand));
      case 'sign':
        return signed(node.sign, of(node.operand));
      case 'and': {
        const left = of(node.left);
        return isTrue(left) ? of(node.right) : left;
      }
      case 'or': {
        const left = of(node.left);
        return isTrue(left) ? left : of(node.right);
      }
      case 'compare':
        return this.#compare(node, scope);
      case 'concat':
        return joined(
          node.parts.map((part) => textOf(of(part), this.budget)),
          '',
          this.budget,
        );
      case 'arithmetic':
        return this.#arithmetic(node, scope);
      case 'condition':
        if (isTrue(of(node.test))) return of(node.value);
        if (node.otherwise !== undefined) return of(node.otherwise);
        return new Undefined('the inline if-expression evaluated to false and no else section was defined.');
    }
  }

  protected filter(value: Value, { name, args: given }: FilterCall, scope: Scope): Value {
    const { args, named } = this.arguments(given, scope);
    return filtered(name, value, args, named, this.budget);
  }

  protected arguments(given: Arguments, scope: Scope): { args: Value[]; named: Map<string, Value> } {
    const args = given.positional.map((each) => this.evaluate(each, scope));
    if (given.list !== undefined) args.push(...iterate(this.evaluate(given.list, scope), this.budget));
    const named = new Map(given.named.map(([name, each]) => [name, this.evaluate(each, scope)] as const));
    if (given.dict !== undefined) {
      const dict = this.evaluate(given.dict, scope);
      if (!(dict instanceof Dict)) throw new TypeError('argument after ** must be a mapping');
      for (const [name, value] of dict.entries()) named.set(String(name), value);
    }
    return { args, named };
  }

  /** Calls a function or a macro. */
  protected called(callee: Value, args: Value[], named: Named): Value {
    if (callee instanceof Undefined) throw new TypeError(callee.why);
    const call = callee instanceof Callable || callee instanceof Attributes ? callee.call : undefined;
    if (call === undefined) throw new TypeError(`'${typeName(callee)}' object is not callable`);
    const result = call.call(callee, args, named);
    if (typeof result === 'string') this.budget.make(result.length);
    return result;
  }

  #call(callee: Expression, given: Arguments, scope: Scope): Value {
    const value = this.evaluate(callee, scope);
    const { args, named } = this.arguments(given, scope);
    return this.called(value, args, named);
  }

  #arithmetic({ operator, left, right }: Expression & { kind: 'arithmetic' }, scope: Scope): Value {
    const escapes = operator === '+' && isSafe(left) !== isSafe(right);
    const operand = (node: Expression): Value => {
      const value = this.evaluate(node, scope);
      return escapes && !isSafe(node) && typeof value === 'string' ? escaped(value, this.budget) : value;
    };
    return arithmetic(operator, operand(left), operand(right), this.budget);
  }

  #compare({ first, rest }: Expression & { kind: 'compare' }, scope: Scope): boolean {
    let left = this.evaluate(first, scope);
    return rest.every(({ operator, operand }) => {
      const right = this.evaluate(operand, scope);
      const holds = compared(operator, left, right, this.budget);
      left = right;
      return holds;
    });
  }
}

const SAFE = new Set(['safe', 'e', 'escape', 'forceescape']);

/** Whether it is a text that Python has as `Markup`, which escapes the HTML of texts that are added to it. */
function isSafe(node: Expression): boolean {
  if (node.kind === 'filter') return SAFE.has(node.filter.name);
  return node.kind === 'arithmetic' && node.operator === '+' && (isSafe(node.left) || isSafe(node.right));
}
