/** The parts of a template. */
import type { Arithmetic, Comparison } from './operators.js';
import type { Value } from './values.js';

export type Expression =
  | { kind: 'constant'; value: Value }
  | { kind: 'name'; name: string }
  | { kind: 'list' | 'tuple'; items: readonly Expression[] }
  | { kind: 'dict'; entries: readonly (readonly [Expression, Expression])[] }
  | { kind: 'attribute'; object: Expression; name: string }
  | { kind: 'item'; object: Expression; key: Expression }
  | { kind: 'slice'; object: Expression; parts: readonly (Expression | undefined)[] }
  | { kind: 'call'; callee: Expression; args: Arguments }
  | { kind: 'filter'; operand: Expression; filter: FilterCall }
  | { kind: 'test'; operand: Expression; name: string; args: Arguments }
  | { kind: 'not'; operand: Expression }
  | { kind: 'sign'; sign: '+' | '-'; operand: Expression }
  | { kind: 'and' | 'or'; left: Expression; right: Expression }
  | { kind: 'compare'; first: Expression; rest: readonly { operator: Comparison; operand: Expression }[] }
  | { kind: 'concat'; parts: readonly Expression[] }
  | { kind: 'arithmetic'; operator: Arithmetic; left: Expression; right: Expression }
  | { kind: 'condition'; test: Expression; value: Expression; otherwise: Expression | undefined };

export interface FilterCall {
  name: string;
  args: Arguments;
}

export interface Arguments {
  positional: readonly Expression[];
  named: readonly (readonly [string, Expression])[];
  /** Behind `*` and `**`. */
  list: Expression | undefined;
  dict: Expression | undefined;
}

/** What a value is assigned to. */
export type Target =
  | { kind: 'name'; name: string }
  | { kind: 'tuple'; items: readonly Target[] }
  | { kind: 'attribute'; object: string; name: string };

export interface Parameter {
  name: string;
  usual: Expression | undefined;
}

/** The parameters and the body of a macro, or of what a `call` block passes to one. */
export interface MacroParts {
  parameters: readonly Parameter[];
  body: Block;
  /** Names in the body: `varargs`, `kwargs` and `caller` are passed where it has them. */
  names: ReadonlySet<string>;
}

export type Block = readonly Statement[];

export type Statement =
  | { kind: 'text'; text: string }
  | { kind: 'print'; value: Expression }
  | { kind: 'if'; branches: readonly { test: Expression; body: Block }[]; otherwise: Block }
  | {
      kind: 'for';
      target: Target;
      iterable: Expression;
      test: Expression | undefined;
      recursive: boolean;
      body: Block;
      otherwise: Block;
    }
  | { kind: 'set'; target: Target; value: Expression }
  | { kind: 'setBlock'; target: Target; filters: readonly FilterCall[]; body: Block }
  | { kind: 'macro'; name: string; parts: MacroParts }
  | { kind: 'callBlock'; call: Expression & { kind: 'call' }; parts: MacroParts }
  | { kind: 'filterBlock'; filters: readonly FilterCall[]; body: Block }
  | { kind: 'with'; bindings: readonly { target: Target; value: Expression }[]; body: Block }
  | { kind: 'break' | 'continue' };
