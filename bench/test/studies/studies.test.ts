import { describe, expect, it } from 'vitest';
import { FULL_STUDIES, QUICK_STUDIES, selectStudies, studyName } from '../../src/studies/studies.js';

describe('studies', () => {
  it('have names of their own, with the model first', () => {
    const names = FULL_STUDIES.map(studyName);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain('switch-mini/sst2/fidelity');
    expect(names).toContain('olmoe-mini/text/fidelity');
    expect(selectStudies(FULL_STUDIES, ['switch-words*']).map(studyName)).toEqual([
      'switch-words/words/fidelity',
    ]);
    expect(selectStudies(FULL_STUDIES, ['olmoe-mini'])).toHaveLength(1);
    for (const study of QUICK_STUDIES) expect(names).toContain(studyName(study));
  });
});
