//! Orders, reports and workers in memory.

use std::collections::BTreeMap;

use super::MemoryTransaction;
use crate::error::StoreError;
use crate::order::{Life, NewOrder, StoredOrder, StoredReport, StoredWorker};
use crate::tables::OrderTables;

#[derive(Clone, Default)]
pub(super) struct Orders {
    orders: BTreeMap<u64, StoredOrder>,
    last: u64,
    reports: BTreeMap<u64, String>,
    workers: BTreeMap<String, StoredWorker>,
    /// The names of workers, by run, in the order of their numbers.
    worker_names: BTreeMap<String, Vec<String>>,
}

impl Orders {
    /// Has later orders get tokens above `floor`.
    pub(super) fn raise(&mut self, floor: u64) {
        self.last = self.last.max(floor);
    }

    fn all(&self, is_wanted: impl Fn(&StoredOrder) -> bool) -> Vec<StoredOrder> {
        self.orders.values().filter(|order| is_wanted(order)).cloned().collect()
    }

    pub(super) fn delete_run(&mut self, run: &str) {
        self.orders.retain(|_, order| order.run != run);
        self.worker_names.remove(run);
        self.reports.retain(|token, _| self.orders.contains_key(token));
    }
}

impl OrderTables for MemoryTransaction {
    fn insert_orders(&self, run: &str, new: &[NewOrder]) -> Result<Vec<u64>, StoreError> {
        let orders = &mut self.tables().orders;
        let insert = |NewOrder { key, life, text }: NewOrder| {
            orders.last += 1;
            let (token, run) = (orders.last, run.to_owned());
            orders.orders.insert(token, StoredOrder { token, run, key, life, text, wish: None });
            token
        };
        Ok(new.iter().cloned().map(insert).collect())
    }

    fn set_wish(&self, token: u64, wish: &str) -> Result<(), StoreError> {
        if let Some(order) = self.tables().orders.orders.get_mut(&token) {
            order.wish = Some(wish.to_owned());
        }
        Ok(())
    }

    fn orders_of_life(&self, life: &Life, after: u64) -> Result<Vec<StoredOrder>, StoreError> {
        Ok(self.tables().orders.all(|order| order.life == *life && order.token > after))
    }

    fn wishes(&self, life: &Life) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        let orders = self.orders_of_life(life, 0)?.into_iter();
        Ok(orders.map(|order| (order.token, order.wish)).collect())
    }

    fn orders_before(&self, life: &Life) -> Result<Vec<StoredOrder>, StoreError> {
        let orders = &self.tables().orders;
        let is_earlier =
            |order: &StoredOrder| order.life.worker == life.worker && order.life.token < life.token;
        Ok(orders.all(|order| is_earlier(order) && !orders.reports.contains_key(&order.token)))
    }

    fn orders_of_run(&self, run: &str) -> Result<Vec<StoredOrder>, StoreError> {
        Ok(self.tables().orders.all(|order| order.run == run))
    }

    fn order_counts(&self, prefix: &str) -> Result<Vec<(String, usize)>, StoreError> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for order in self.tables().orders.all(|order| order.key.starts_with(prefix)) {
            *counts.entry(order.run).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    fn put_reports(&self, reports: &[(u64, String)]) -> Result<(), StoreError> {
        let orders = &mut self.tables().orders;
        for (token, text) in reports.iter().filter(|(token, _)| orders.orders.contains_key(token)) {
            orders.reports.entry(*token).or_insert_with(|| text.clone());
        }
        Ok(())
    }

    fn has_reports(&self) -> Result<bool, StoreError> {
        Ok(!self.tables().orders.reports.is_empty())
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let tables = self.tables();
        let Orders { orders, reports, .. } = &tables.orders;
        let report = |(token, text): (&u64, &String)| {
            let StoredOrder { run, key, .. } = orders[token].clone();
            StoredReport { token: *token, run, key, text: text.clone() }
        };
        Ok(reports.iter().map(report).collect())
    }

    fn take_reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        let taken = self.reports()?;
        let orders = &mut self.tables().orders;
        for token in std::mem::take(&mut orders.reports).into_keys() {
            orders.orders.remove(&token);
        }
        Ok(taken)
    }

    fn put_worker(&self, worker: &StoredWorker) -> Result<(), StoreError> {
        let workers = &mut self.tables().orders.workers;
        workers.insert(worker.life.worker.clone(), worker.clone());
        Ok(())
    }

    fn delete_worker(&self, life: &Life) -> Result<(), StoreError> {
        self.tables().orders.workers.retain(|_, worker| worker.life != *life);
        Ok(())
    }

    fn workers(&self) -> Result<Vec<StoredWorker>, StoreError> {
        Ok(self.tables().orders.workers.values().cloned().collect())
    }

    fn name_worker(&self, run: &str, number: u32, name: &str) -> Result<(), StoreError> {
        let names = &mut self.tables().orders.worker_names;
        let names = names.entry(run.to_owned()).or_default();
        assert_eq!(names.len(), number as usize, "numbers leave none out");
        names.push(name.to_owned());
        Ok(())
    }

    fn worker_names(&self, run: &str) -> Result<Vec<String>, StoreError> {
        Ok(self.tables().orders.worker_names.get(run).cloned().unwrap_or_default())
    }
}
