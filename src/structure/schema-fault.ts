/** Why a JSON schema is refused, and at which place in it. */
export class SchemaFault extends Error {
  constructor(path: readonly string[], why: string) {
    const where =
      path.length === 0 ? 'The JSON schema' : `The JSON schema at ${path.join('.').slice(0, 200)}`;
    super(`${where} cannot be used: ${why}`);
  }
}

/** Throws SchemaFault. */
export function refuse(path: readonly string[], why: string): never {
  throw new SchemaFault(path, why);
}

/** A value as messages show it. */
export function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 60);
}
