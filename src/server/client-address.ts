/** Which addresses count as one client. */
import { isIPv4 } from 'node:net';

/** An IPv4 address, or the /64 network of an IPv6 address: one client owns all addresses of its /64. */
export function clientOf(address: string): string {
  const mapped = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  if (isIPv4(mapped)) return mapped;
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array<string>(Math.max(0, 8 - first.length - last.length)).fill('0');
  const groups = [...first, ...zeros, ...last].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

/** Whether `client`, a result of `clientOf`, is this machine itself. */
export function isThisMachine(client: string): boolean {
  return client.startsWith('127.') || client === '0:0:0:0::/64';
}
