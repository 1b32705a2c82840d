/** What a key may do. A route requires one of these scopes, any key, or no key. */
export const SCOPES = ['infer', 'admin', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** `public` requires no key; `any` accepts every key. */
export type RouteScope = Scope | 'any' | 'public';

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
