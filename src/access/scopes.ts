/** What a key may do. A route asks for one of these, for any key, or for none. */
export const SCOPES = ['infer', 'admin', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** `public`: no key. `any`: every key. */
export type RouteScope = Scope | 'any' | 'public';

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}
