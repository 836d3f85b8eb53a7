//! Which keys have a rule of their own?
//!
//! An override is for a key, as people write it, or for all requests in which something
//! else, like a header that names a plan, has a certain value: a tier. What a key's hash
//! says does not tell its tier, and much that is done to a bucket knows the hash alone.
//! So the ids of such a limit begin with a number that stands for the tier, which makes
//! buckets of their own of it, and the same ones in all instances.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Rule;
use crate::key::{Facts, KeyHasher, KeyId, KeyTemplate};

/// The rules that some keys have instead of their limit's.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    by: Option<KeyTemplate>,
    named: Vec<(String, Rule)>,
    known: Arc<Known>,
}

/// The same by the ids under a certain secret.
#[derive(Debug, Default)]
struct Known {
    keys: HashMap<KeyId, Rule>,
    tiers: HashMap<u16, Rule>,
    tier_of: HashMap<KeyId, u16>,
}

impl Overrides {
    /// Rules by the text of a key, or of what `by` reads.
    pub fn new(by: Option<KeyTemplate>, named: Vec<(String, Rule)>) -> Self {
        Self {
            by,
            named,
            known: Arc::default(),
        }
    }

    /// What they are for, and their rules.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Rule)> {
        self.named.iter().map(|(name, rule)| (name.as_str(), rule))
    }

    /// What has the values that they are for, where it isn't the key.
    pub const fn by(&self) -> Option<&KeyTemplate> {
        self.by.as_ref()
    }

    /// The same, knowing ids.
    #[must_use]
    pub(super) fn resolved(self, key: &KeyTemplate, ipv6_prefix: u8, hasher: &KeyHasher) -> Self {
        let mut known = Known::default();
        let template = self.by.as_ref().unwrap_or(key);
        // In an order that is the same everywhere.
        let mut named: Vec<_> = self.named.iter().collect();
        named.sort_by_key(|(name, _)| name);
        let mut taken = HashSet::from([0]);
        for (name, rule) in named {
            let ids = template.ids(name, ipv6_prefix, hasher);
            if self.by.is_none() {
                known.keys.extend(ids.into_iter().map(|id| (id, *rule)));
                continue;
            }
            let mut tier = hasher.hash(name).tier();
            while !taken.insert(tier) {
                tier = tier.wrapping_add(1);
            }
            known.tiers.insert(tier, *rule);
            known.tier_of.extend(ids.into_iter().map(|id| (id, tier)));
        }
        Self {
            known: Arc::new(known),
            ..self
        }
    }

    /// The rule of a key, where it has one of its own.
    pub(super) fn of(&self, key: KeyId) -> Option<&Rule> {
        if self.named.is_empty() {
            return None;
        }
        match self.by {
            None => self.known.keys.get(&key),
            Some(_) => self.known.tiers.get(&key.tier()),
        }
    }

    /// A key's id as it is in the tier of this request.
    pub(super) fn tiered(
        &self,
        key: KeyId,
        facts: &Facts<'_>,
        ipv6_prefix: u8,
        hasher: &KeyHasher,
    ) -> KeyId {
        let Some(by) = &self.by else { return key };
        let value = by.read(facts, ipv6_prefix, hasher);
        let tier = value.and_then(|value| self.known.tier_of.get(&value));
        key.in_tier(tier.copied().unwrap_or(0))
    }

    /// The ids that a key has in any tier.
    pub(super) fn ids(&self, key: KeyId) -> Vec<KeyId> {
        if self.by.is_none() {
            return vec![key];
        }
        let tiers = self.known.tiers.keys().copied();
        let mut tiers: Vec<u16> = std::iter::once(0).chain(tiers).collect();
        tiers.sort_unstable();
        tiers.into_iter().map(|tier| key.in_tier(tier)).collect()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::limit::Policy;
    use crate::line::Pace;

    fn rule(rate: &str) -> Rule {
        Rule::Pace(Pace::new(rate.parse().expect(rate), 0, 0).expect("a pace"))
    }

    fn policy(by: Option<&str>, names: &[&str]) -> Policy {
        let named = names
            .iter()
            .zip(1..)
            .map(|(name, nth): (_, u32)| ((*name).to_owned(), rule(&format!("{nth}r/s"))));
        let by = by.map(|by| by.parse().expect("a template"));
        let key = "{header.x-user}".parse().expect("a key");
        Policy {
            overrides: Overrides::new(by, named.collect()),
            ..Policy::new("api", key, rule("1r/m"))
        }
        .resolved(&KeyHasher::new("test"))
    }

    fn rates(policy: &Policy, users: &[(&str, &str)]) -> Vec<String> {
        let rate =
            |(user, plan): &(&str, &str)| policy.rule_of(key(policy, user, plan)).to_string();
        users.iter().map(rate).collect()
    }

    fn key(policy: &Policy, user: &str, plan: &str) -> KeyId {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-user", user), ("x-plan", plan)] {
            headers.insert(name, value.parse().expect("a value"));
        }
        let facts = Facts {
            ip: None,
            host: "h",
            method: &Method::GET,
            route: "/",
            path: "/",
            query: None,
            headers: &headers,
        };
        let hasher = KeyHasher::new("test");
        let key = policy.key.read(&facts, 64, &hasher).expect("a key");
        policy.tiered(key, &facts, &hasher)
    }

    #[test]
    fn some_keys_have_a_rule_of_their_own() {
        let policy = policy(None, &["gold-1", "gold-2"]);
        let users = [("gold-1", "-"), ("gold-2", "-"), ("other", "gold-1")];
        assert_eq!(rates(&policy, &users), ["1r/s", "2r/s", "1r/m"]);
    }

    #[test]
    fn a_tier_has_buckets_of_its_own_under_each_key() {
        let policy = policy(Some("{header.x-plan}"), &["gold", "silver"]);
        let users = [("a", "gold"), ("a", "silver"), ("a", "tin"), ("gold", "-")];
        assert_eq!(rates(&policy, &users), ["1r/s", "2r/s", "1r/m", "1r/m"]);
        let ids = ["gold", "silver", "tin"].map(|plan| key(&policy, "a", plan));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[2] != ids[0]);
        assert_eq!(key(&policy, "a", "tin"), key(&policy, "a", "lead"));
        // Whoever asks for the key by its text finds each of them.
        let meant = policy.ids("a", &KeyHasher::new("test"));
        assert!(ids.iter().all(|id| meant.contains(id)), "{meant:?}");
    }

    #[test]
    fn tiers_are_told_apart_however_many_there_are() {
        let names: Vec<String> = (0..3_000).map(|nth| format!("plan {nth}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let policy = policy(Some("{header.x-plan}"), &names);
        for (nth, name) in names.iter().enumerate() {
            let rate = policy.rule_of(key(&policy, "a", name)).to_string();
            assert_eq!(rate, format!("{}r/s", nth + 1));
        }
    }
}
