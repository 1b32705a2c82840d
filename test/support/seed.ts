// Property tests use the same cases in each run, so that failures repeat. SIDA_TEST_SEED=random uses other cases.
import fc from 'fast-check';

const { SIDA_TEST_SEED: given = '1' } = process.env;
fc.configureGlobal({ seed: given === 'random' ? Date.now() : Number(given) });
