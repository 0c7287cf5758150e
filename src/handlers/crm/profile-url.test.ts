import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { profileUrl } from './profile-url.ts'

const JO = 'https://www.linkedin.com/in/jo-weber'

test.each([
  ['linkedin.com/in/jo-weber', JO],
  ['https://www.linkedin.com/in/Jo-Weber/', JO],
  ['http://de.linkedin.com/in/jo-weber/en?trk=x#about', JO],
  ['//m.linkedin.com/IN/JO-WEBER', JO],
  ['  HTTPS://LinkedIn.com/in//jo-weber ', JO],
  ['linkedin.com/in/jörg', 'https://www.linkedin.com/in/j%C3%B6rg'],
  ['linkedin.com/in/J%C3%96RG', 'https://www.linkedin.com/in/j%C3%B6rg'],
  // Composed of two characters instead of one.
  ['linkedin.com/in/jo\u0308rg', 'https://www.linkedin.com/in/j%C3%B6rg'],
  // An internal id: another case is another person.
  ['linkedin.com/in/ACoAABcdEfGhIjKlMn', 'https://www.linkedin.com/in/ACoAABcdEfGhIjKlMn'],
])('%j is %s', (text, url) => {
  expect(profileUrl(text)).toBe(url)
})

test.each([
  '',
  'jo-weber',
  'https://www.linkedin.com/',
  'https://www.linkedin.com/in/',
  'https://www.linkedin.com/company/acme',
  'https://www.linkedin.com/pub/jo-weber/1/2/3',
  'https://linkedin.com.evil.test/in/jo-weber',
  'https://evil.test/linkedin.com/in/jo-weber',
  'https://notlinkedin.com/in/jo-weber',
  'https://a.b.linkedin.com/in/jo-weber',
  'https://jo@linkedin.com/in/jo-weber',
  'https://linkedin.com:8443/in/jo-weber',
  'ftp://linkedin.com/in/jo-weber',
  'https://linkedin.com/in/jo%2Fweber',
  'https://linkedin.com/in/jo%00weber',
  'https://linkedin.com/in/jo%20weber',
  'https://linkedin.com/in/%E0%A4%A',
  'https://linkedin.com/in/..%2f..%2fadmin',
  `https://linkedin.com/in/${'x'.repeat(101)}`,
])('%j is no profile', (text) => {
  expect(profileUrl(text)).toBeNull()
})

test('every spelling of a profile is one address, and that is its own spelling', () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9äöüéß_-]{0,20}$/u)
  fc.assert(
    fc.property(
      name,
      fc.constantFrom('', 'http://', 'https://', '//'),
      fc.constantFrom('', 'www.', 'de.', 'WWW.'),
      fc.constantFrom('', '/', '?a=b', '/en/', '#x'),
      fc.boolean(),
      (...[name, scheme, country, rest, upper]) => {
        // `ß` in capitals is two letters: another name.
        const written = upper && !name.includes('ß') ? name.toUpperCase() : name
        const address = profileUrl(`${scheme}${country}linkedin.com/in/${written}${rest}`)
        expect(address).toBe(`https://www.linkedin.com/in/${encodeURIComponent(name)}`)
      },
    ),
  )
})

test('whatever is given, the answer is null or stays as it is', () => {
  const near = fc.string({ unit: 'binary' }).map((text) => `linkedin.com/in/${text}`)
  fc.assert(
    fc.property(fc.oneof(near, fc.string({ unit: 'binary' }), fc.webUrl()), (text) => {
      const url = profileUrl(text)
      expect(url === null ? null : profileUrl(url)).toBe(url)
    }),
    { numRuns: 1000 },
  )
})
