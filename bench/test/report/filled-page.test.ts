import { describe, expect, it } from 'vitest';
import { filledPage } from '../../src/report/filled-page.js';

const PAGE = 'docs/a.md';
const block = (name: string, text: string) => `<!-- table ${name} -->\n${text}<!-- end -->`;

describe('filledPage', () => {
  it('puts each table between its marks and leaves the rest', async () => {
    const text = `# Title\n\n${block('one', 'old\n')}\n\nBetween.\n\n${block('two', '')}\n`;
    const { text: filled, lacking } = await filledPage(text, PAGE, {
      one: () => '| a |',
      two: async (page) => `of ${page}`,
    });
    expect(filled).toBe(
      `# Title\n\n${block('one', '| a |\n')}\n\nBetween.\n\n${block('two', 'of docs/a.md\n')}\n`,
    );
    expect(lacking).toEqual([]);
  });

  it('calls old text stale whose result is gone, and empty text not measured', async () => {
    const gone = () => {
      throw Object.assign(new Error('no such file'), { code: 'ENOENT', path: 'r.json' });
    };
    const awaited = 'Not measured yet: `node three.mjs`.\n';
    const text = `${block('one', '| lstm |\n')}\n${block('two', '')}\n${block('three', awaited)}\n${block('bench-x', '| lstm |\n')}`;
    const { text: filled, lacking } = await filledPage(text, PAGE, { one: gone, two: gone, three: gone });
    expect(filled).toBe(text);
    expect(lacking).toEqual([
      { name: 'one', why: 'r.json is not there', stale: true },
      { name: 'two', why: 'r.json is not there', stale: false },
      { name: 'three', why: 'r.json is not there', stale: false },
      { name: 'bench-x', why: '`sida bench` has not measured it', stale: true },
    ]);
  });

  it('refuses a name that no script makes, and a script that fails', async () => {
    await expect(filledPage(block('none', ''), PAGE, {})).rejects.toThrow(
      'docs/a.md asks for a table "none", which no script makes',
    );
    const broken = { one: () => Promise.reject(new Error('broken')) };
    await expect(filledPage(block('one', ''), PAGE, broken)).rejects.toThrow('broken');
  });
});
