/** A page whose tables, between `<!-- table NAME -->` and `<!-- end -->`, are made from results. */

/** Throws ENOENT where it was not measured. */
export type TableText = (page: string) => string | Promise<string>;

export interface FilledPage {
  text: string;
  /** Tables without a result. One that is `stale` keeps its old text, which nothing makes true. */
  lacking: { name: string; why: string; stale: boolean }[];
}

/** Stands in the place of a table that awaits its measurement. */
const AWAITED = /^(Not measured yet.*)?$/;
const TABLE = /(?<=<!-- table ([\w-]+) -->\n)[\s\S]*?(?=<!-- end -->)/g;

/** `page` is the document's path, where the links of its tables start. */
export async function filledPage(
  text: string,
  page: string,
  tables: Readonly<Record<string, TableText>>,
): Promise<FilledPage> {
  const lacking: FilledPage['lacking'] = [];
  const parts: string[] = [];
  let end = 0;
  for (const found of text.matchAll(TABLE)) {
    const [before, name = ''] = found;
    const made = await tableText(name, page, tables);
    if (typeof made !== 'string') lacking.push({ name, ...made, stale: !AWAITED.test(before.trim()) });
    parts.push(text.slice(end, found.index), typeof made === 'string' ? `${made}\n` : before);
    end = found.index + before.length;
  }
  return { text: [...parts, text.slice(end)].join(''), lacking };
}

/** The text of a table, or why there is none. */
async function tableText(
  name: string,
  page: string,
  tables: Readonly<Record<string, TableText>>,
): Promise<string | { why: string }> {
  const table = tables[name];
  if (table === undefined && name.startsWith('bench-')) return { why: '`sida bench` has not measured it' };
  if (table === undefined) throw new Error(`${page} asks for a table "${name}", which no script makes`);
  try {
    return await table(page);
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw error;
    return { why: `${path} is not there` };
  }
}
