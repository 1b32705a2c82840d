/** Parses the responses on a connection from its raw text. The text is latin1, so that a character is a byte. */
export interface RawAnswer {
  status: number;
  headers: string;
  body: string;
}

/**
 * `whole` means that the text holds at least one response and ends with a complete one. Interim responses (1xx) do
 * not count. With `toHead`, responses may have a content-length without a body.
 */
export function parseAnswers(text: string, toHead: boolean): { answers: RawAnswer[]; whole: boolean } {
  const answers: RawAnswer[] = [];
  let at = 0;
  while (at < text.length) {
    const headEnd = text.indexOf('\r\n\r\n', at);
    if (headEnd < 0) return { answers, whole: false };
    const headers = text.slice(at, headEnd);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(headers)?.[1]);
    if (Number.isNaN(status))
      throw new Error(`this is no answer: ${JSON.stringify(text.slice(at, at + 200))}`);
    at = headEnd + 4;
    if (status < 200) continue;
    const length = Number(/^content-length: (\d+)$/im.exec(headers)?.[1] ?? 0);
    const body =
      toHead && (at === text.length || text.startsWith('HTTP/1.1 ', at)) ? '' : text.slice(at, at + length);
    if (!toHead && body.length < length) return { answers, whole: false };
    at += body.length;
    answers.push({ status, headers, body });
    // Reading stops after a streamed response.
    if (/^transfer-encoding: chunked$/im.test(headers)) break;
  }
  return { answers, whole: answers.length > 0 };
}
