/** The words of an error, without the code, the call and the path that an error of the system begins and ends with. */
export function causeOf(error: unknown): string {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (code === undefined || syscall === undefined) return message;
  return /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? message;
}
