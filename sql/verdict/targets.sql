-- asks: What is printed beside each target's verdict?
SELECT * FROM target_summary ORDER BY run, target_no
