/** Streams of answers over sockets that the test destroys when it likes. */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Sends `request`; `take` is called with all that came so far, each time that something came. */
export function openStream(
  port: number,
  request: string,
  take: (text: string, socket: Socket) => void,
): Promise<void> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ host: '127.0.0.1', port }, () => socket.write(request));
    socket
      .on('error', () => undefined)
      .on('data', (data) => {
        text += data.toString('latin1');
        take(text, socket);
      })
      .on('close', () => resolve());
  });
}

export function dropAtPiece(port: number, request: string, pieces: number): Promise<void> {
  return openStream(port, request, (text, socket) => {
    if (text.split('data: ').length - 1 >= pieces) socket.destroy();
  });
}

/** Sends `request` and destroys its connection after `ms`. */
export async function dropAfter(port: number, request: string, ms: number): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => undefined).write(request);
  await delay(ms);
  socket.destroy();
}
