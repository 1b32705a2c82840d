/** What templates of different families call the variable that turns reasoning on. The others ignore it. */
export function thinkingVariables(on: boolean): Record<string, boolean> {
  return { enable_thinking: on, thinking: on };
}
